//! A stream on which an answer is read although the request can no longer be written.
//!
//! A server may refuse by the head of a request alone (401, 413) and close the connection while the body is on its way.
//! Writing fails then, and hyper gives up at that with the answer unread. Here the bytes that cannot be written are
//! dropped, and reading says what came: the answer, or the end of the connection.

use std::io;
use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub(super) struct ReadableToTheEnd<S> {
    stream: S,
    /// The other side takes no more.
    is_write_closed: bool,
}

impl<S: AsyncWrite + Unpin> ReadableToTheEnd<S> {
    pub fn new(stream: S) -> Self {
        ReadableToTheEnd { stream, is_write_closed: false }
    }

    /// Writes, or returns `dropped` once the other side takes no more.
    fn write<T>(
        &mut self,
        dropped: T,
        write: impl FnOnce(Pin<&mut S>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if self.is_write_closed {
            return Poll::Ready(Ok(dropped));
        }
        match write(Pin::new(&mut self.stream)) {
            Poll::Ready(Err(error)) if matches!(error.kind(), BrokenPipe | ConnectionReset) => {
                self.is_write_closed = true;
                Poll::Ready(Ok(dropped))
            }
            other => other,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadableToTheEnd<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReadableToTheEnd<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.write(bytes.len(), |stream| stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all = slices.iter().map(|slice| slice.len()).sum();
        self.write(all, |stream| stream.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write((), |stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write((), |stream| stream.poll_shutdown(cx))
    }
}
