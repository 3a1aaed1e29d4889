// Answers are checked at run time, too, against schemas that are made from the same document.
export default {
  input: './openapi.json',
  output: './generated',
  plugins: ['@hey-api/client-fetch', 'zod', { name: '@hey-api/sdk', validator: true }],
};
