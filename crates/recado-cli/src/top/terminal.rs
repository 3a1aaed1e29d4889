//! The terminal while it is ours: the alternate screen, no echo, keys as they are pressed.

use std::io::{self, Read, Write};

use recado_terminal::Screen;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc;

const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K";
const REST_OF_SCREEN: &str = "\x1b[J";

/// Given back as it was when dropped.
pub struct Terminal {
    before: Termios,
    keys: mpsc::UnboundedReceiver<u8>,
}

impl Terminal {
    pub fn take() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut ours = before.clone();
        // Signals stay: Ctrl-C is for leaving.
        ours.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Now, &ours)?;
        let (pressed, keys) = mpsc::unbounded_channel();
        // It ends with the process: nothing else wakes a thread that waits for a key.
        std::thread::spawn(move || {
            let mut key = [0];
            while io::stdin().read_exact(&mut key).is_ok() && pressed.send(key[0]).is_ok() {}
        });
        let terminal = Terminal { before, keys };
        io::stdout().write_all(ENTER.as_bytes())?;
        Ok(terminal)
    }

    /// Resolves when the user wants to leave.
    pub async fn left(&mut self) {
        while let Some(key) = self.keys.recv().await {
            if matches!(key, b'q' | b'Q') {
                return;
            }
        }
        // No key can be pressed any more.
        std::future::pending().await
    }

    /// Draws a page over the last one, without a flicker, as far as there is room.
    pub fn show(&mut self, screen: &mut Screen, page: &[u8]) -> io::Result<()> {
        let rows = tcgetwinsize(io::stdout()).map_or(24, |size| usize::from(size.ws_row)).max(2);
        let page = String::from_utf8_lossy(page);
        let mut out = HOME.to_owned();
        for line in page.lines().take(rows - 1) {
            out.push_str(line);
            out.push_str(REST_OF_LINE);
            out.push_str("\r\n");
        }
        out.push_str(REST_OF_SCREEN);
        screen.text(&out)?;
        screen.flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A failure here has no reader.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
        let mut out = io::stdout();
        let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
    }
}
