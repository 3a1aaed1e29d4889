//! Chromium by WebDriver, spoken plainly over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use serde_json::{Value, json};

/// Time that anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Drivers that may end before they listen: other tests may have half of all ports for a while.
const START_TRIES: usize = 50;

const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Runs before the page's own scripts, and keeps what should never happen.
const WATCH: &str = r#"
    window.refused = [];
    addEventListener("securitypolicyviolation", (event) => refused.push(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
    addEventListener("error", (event) => refused.push(`error: ${event.message ?? event.target?.outerHTML}`), true);
    addEventListener("unhandledrejection", (event) => refused.push(`rejection: ${event.reason}`));
    window.alert = (words) => refused.push(`alert: ${words}`);
"#;

/// Keys that are no text.
pub const ENTER: &str = "\u{E007}";
pub const ESCAPE: &str = "\u{E00C}";
pub const TAB: &str = "\u{E004}";
const CONTROL: &str = "\u{E009}";

pub struct Look {
    pub language: &'static str,
    pub width: u32,
    pub height: u32,
    pub dark: bool,
}

impl Default for Look {
    fn default() -> Self {
        Look { language: "en-GB", width: 1280, height: 860, dark: false }
    }
}

/// A browser with one page. Ends with the test.
pub struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    home: String,
}

/// A driver and its port; nothing when it found none: it wants the same one free on both protocols.
fn start() -> Option<(Child, u16)> {
    let mut driver = Command::new("chromedriver")
        .args(["--port=0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("chromedriver: `cargo xtask setup` installs it");
    let said = BufReader::new(driver.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let port = said
        .filter(|line| line.contains("started successfully on port"))
        .find_map(|line| line.trim_end_matches('.').rsplit(' ').next()?.parse::<u16>().ok());
    if port.is_none() {
        let _ = driver.kill();
        let _ = driver.wait();
    }
    Some((driver, port?))
}

impl Browser {
    /// At the dashboard of the server at `home`.
    pub fn at(home: &str, look: Look) -> Self {
        let (driver, port) = (0..START_TRIES).find_map(|_| start()).expect("a chromedriver that listens");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut browser = Browser { driver, address, session: String::new(), home: home.to_owned() };
        let options = json!({
            "args": [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--force-prefers-reduced-motion", format!("--lang={}", look.language),
            ],
            "prefs": { "intl.accept_languages": look.language },
        });
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let made = browser.ask("POST", "/session", &wanted);
        browser.session = made["sessionId"].as_str().expect("a session").to_owned();
        browser.command("Page.addScriptToEvaluateOnNewDocument", json!({ "source": WATCH }));
        let size =
            json!({ "width": look.width, "height": look.height, "deviceScaleFactor": 1, "mobile": false });
        browser.command("Emulation.setDeviceMetricsOverride", size);
        let scheme = if look.dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        browser.command("Emulation.setEmulatedMedia", media);
        browser.go("");
        browser.sees_part("main h1");
        browser
    }

    fn try_ask(&self, method: &str, path: &str, body: &Value) -> std::io::Result<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE * 2))?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all((head + &body).as_bytes())?;
        // The driver keeps the connection whatever it is asked, so the end is where the length says.
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else {
                if line.trim().is_empty() { break } else { continue }
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(std::io::Error::other)?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        Ok(serde_json::from_slice::<Value>(&body)?["value"].take())
    }

    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.try_ask(method, path, body).expect("chromedriver answers");
        assert!(answer["error"].is_null(), "{method} {path}: {}", answer["message"]);
        answer
    }

    #[track_caller]
    fn within(&self, method: &str, path: &str, body: &Value) -> Value {
        self.ask(method, &format!("/session/{}{path}", self.session), body)
    }

    /// A command of the browser's own protocol.
    #[track_caller]
    fn command(&self, name: &str, params: Value) {
        self.within("POST", "/goog/cdp/execute", &json!({ "cmd": name, "params": params }));
    }

    /// Runs a script of the test's own in the page.
    #[track_caller]
    pub fn run(&self, script: &str, arguments: Value) -> Value {
        self.within("POST", "/execute/sync", &json!({ "script": script, "args": arguments }))
    }

    /// Goes to a place of the dashboard, such as `#/jobs`.
    #[track_caller]
    pub fn go(&self, place: &str) {
        self.within("POST", "/url", &json!({ "url": format!("{}/{place}", self.home) }));
    }

    #[track_caller]
    pub fn reload(&self) {
        self.within("POST", "/refresh", &json!({}));
    }

    pub fn place(&self) -> String {
        self.run("return location.hash", json!([])).as_str().expect("a text").to_owned()
    }

    /// All that can be read on the page.
    pub fn text(&self) -> String {
        self.run("return document.body.innerText", json!([])).as_str().unwrap_or_default().to_owned()
    }

    #[track_caller]
    pub fn until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let started = Instant::now();
        while !condition() {
            let seen = self.text();
            assert!(started.elapsed() < PATIENCE, "{what}: it did not happen. The page reads:\n{seen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until these words are on the page.
    #[track_caller]
    pub fn sees(&self, words: &str) {
        self.until(words, || self.text().contains(words));
    }

    #[track_caller]
    pub fn no_longer_sees(&self, words: &str) {
        self.until(&format!("no more {words}"), || !self.text().contains(words));
    }

    fn find(&self, using: &str, value: &str) -> Option<String> {
        let path = format!("/session/{}/elements", self.session);
        let found = self.try_ask("POST", &path, &json!({ "using": using, "value": value })).ok()?;
        let shown = |id: &&str| {
            let path = format!("/session/{}/element/{id}/displayed", self.session);
            self.try_ask("GET", &path, &Value::Null).is_ok_and(|is| is == true)
        };
        let ids: Vec<_> = found.as_array()?.iter().filter_map(|one| one[ELEMENT].as_str()).collect();
        ids.into_iter().find(shown).map(str::to_owned)
    }

    /// Waits for something that can be seen, by its selector.
    #[track_caller]
    pub fn sees_part(&self, selector: &str) {
        self.until(selector, || self.find("css selector", selector).is_some());
    }

    /// Does something to an element: in the dialog when one is open, else within `scope`. Pages draw
    /// themselves anew, so it may have to be found again.
    #[track_caller]
    fn to_element(&self, scope: &str, xpath: &str, act: &str, body: &Value) {
        self.until(xpath, || {
            let is_asked = self.find("css selector", "dialog[open]").is_some();
            let scope = if is_asked { "//dialog[@open]" } else { scope };
            let Some(id) = self.find("xpath", &format!("{scope}{xpath}")) else { return false };
            let path = format!("/session/{}/element/{id}/{act}", self.session);
            self.try_ask("POST", &path, body).is_ok_and(|answer| answer["error"].is_null())
        });
    }

    /// Clicks a link or a button by its words.
    #[track_caller]
    pub fn click(&self, words: &str) {
        self.click_within("", words);
    }

    /// The same inside of whatever `scope` is the XPath of.
    #[track_caller]
    pub fn click_within(&self, scope: &str, words: &str) {
        let xpath = format!("//*[self::a or self::button][normalize-space()='{words}']");
        self.to_element(scope, &xpath, "click", &json!({}));
    }

    /// Clicks something that has no words of its own.
    #[track_caller]
    pub fn click_part(&self, xpath: &str) {
        self.to_element("", xpath, "click", &json!({}));
    }

    /// Writes into the field with this label, in place of what is there.
    #[track_caller]
    pub fn write(&self, label: &str, text: &str) {
        let xpath = format!("//label[span[normalize-space()='{label}']]/*[self::input or self::textarea]");
        self.to_element("", &xpath, "clear", &json!({}));
        self.to_element("", &xpath, "value", &json!({ "text": text }));
    }

    /// Writes into the editor, in place of what is there.
    #[track_caller]
    pub fn write_code(&self, text: &str) {
        let all = format!("{CONTROL}a{CONTROL}{text}");
        self.to_element("", "//textarea[contains(@class, 'code')]", "value", &json!({ "text": all }));
    }

    pub fn code(&self) -> String {
        let code = self.run("return document.querySelector('textarea.code').value", json!([]));
        code.as_str().expect("a text").to_owned()
    }

    /// Types to whatever has the focus.
    #[track_caller]
    pub fn type_keys(&self, keys: &str) {
        let strokes: Vec<_> = keys
            .chars()
            .flat_map(|key| {
                [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })]
            })
            .collect();
        let actions = json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": strokes }] });
        self.within("POST", "/actions", &actions);
    }

    /// Nothing was refused, nothing threw, nothing ran that should not.
    #[track_caller]
    pub fn is_clean(&self) {
        let refused = self.refused();
        assert!(refused.is_empty(), "{refused:#?}");
    }

    /// Requests that the page was refused, and errors in it. An answer of the API that says no is neither.
    pub fn refused(&self) -> Vec<String> {
        let mut found: Vec<String> =
            serde_json::from_value(self.run("return window.refused", json!([]))).expect("a list");
        let log = self.within("POST", "/se/log", &json!({ "type": "browser" }));
        for line in log.as_array().into_iter().flatten().filter(|line| line["level"] == "SEVERE") {
            let words = line["message"].as_str().unwrap_or_default();
            if !words.contains("Failed to load resource") {
                found.push(format!("console: {words}"));
            }
        }
        found
    }

    /// A picture for the documents, when new ones are wanted.
    pub fn picture(&self, name: &str) {
        if std::env::var_os("RECADO_SCREENSHOTS").is_none() {
            return;
        }
        let picture = self.within("GET", "/screenshot", &Value::Null);
        let bytes = base64::engine::general_purpose::STANDARD.decode(picture.as_str().expect("a picture"));
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join(format!("{name}.png")), bytes.expect("Base64")).expect("a file");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with its session; the driver alone would leave it behind.
        let _ = self.try_ask("DELETE", &format!("/session/{}", self.session), &Value::Null);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
