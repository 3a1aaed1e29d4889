//! Instagram, TikTok, YouTube and OpenAI, by what their answers say.

use serde_json::{Value, json};

use super::far_ends::{Act, FarEnd, graph, openai, page, tiktok, youtube};
use super::given::eventually;
use super::scene::{Scene, tries};

/// Every such provider, well-mannered, and a server that knows them all.
struct Social {
    instagram: FarEnd,
    tiktok: FarEnd,
    youtube: FarEnd,
    openai: FarEnd,
    scene: Scene,
}

impl Social {
    fn with(more: &str) -> Self {
        let (instagram, tiktok) = (graph::start(), tiktok::start());
        let (youtube, openai) = (youtube::start(), openai::start());
        // What each answer means is asked here many times over; what opens a breaker, in `lanes`.
        let providers = [
            graph::provider(&instagram),
            tiktok::provider(&tiktok),
            youtube::provider(&youtube),
            openai::provider(&openai),
        ];
        let config = providers.join("breaker = false\n") + "breaker = false\n" + more;
        let scene = Scene::with(&config);
        Social { instagram, tiktok, youtube, openai, scene }
    }

    fn far_end(&self, route: &str) -> &FarEnd {
        match route {
            "instagram" => &self.instagram,
            "tiktok" => &self.tiktok,
            "youtube" => &self.youtube,
            "openai" => &self.openai,
            other => panic!("no far end for {other}"),
        }
    }

    /// Sends a job that meets this answer.
    fn send_into(&self, route: &str, id: &str, act: Act) {
        self.far_end(route).always(id, act);
        self.scene.send(route, "acme", id, &post(id));
    }
}

/// Something to post, which names its job so that the far end knows what to do with it.
fn post(id: &str) -> Value {
    json!({ "path": "v1/posts", "body": { "caption": id } })
}

fn rows(acts: Vec<(&'static str, Act, &'static str)>) -> Vec<(&'static str, String, Act, &'static str)> {
    let row = |(at, (route, act, told)): (usize, (&'static str, Act, &'static str))| {
        (route, format!("row-{at}-{route}"), act, told)
    };
    acts.into_iter().enumerate().map(row).collect()
}

#[test]
fn f7_f8_what_may_work_later_waits_for_its_retry_by_status_and_by_body() {
    let social = Social::with("");
    let rows = rows(vec![
        ("instagram", page(500), "failed 500 TRANSIENT social/500"),
        ("instagram", page(502), "failed 502 TRANSIENT social/502"),
        ("instagram", page(503), "failed 503 TRANSIENT social/503"),
        ("instagram", page(429), "failed 429 RATE_LIMIT social/429"),
        ("instagram", Act::hang_up(), "uncertain CONNECTION_LOST TRANSIENT social/network"),
        ("instagram", graph::request_limit(), "failed 400 RATE_LIMIT social/graph-4"),
        ("instagram", graph::transient(), "failed 400 TRANSIENT social/graph-is-transient"),
        ("instagram", graph::unknown_problem(), "failed 500 TRANSIENT social/500"),
        (
            "tiktok",
            tiktok::error(429, "rate_limit_exceeded"),
            "failed 429 RATE_LIMIT social/rate_limit_exceeded",
        ),
        ("tiktok", tiktok::error(500, "internal_error"), "failed 500 TRANSIENT social/internal_error"),
        (
            "youtube",
            youtube::error(403, "quotaExceeded", "You have exceeded your quota."),
            "failed 403 RATE_LIMIT social/quotaExceeded",
        ),
        (
            "youtube",
            youtube::error(400, "uploadLimitExceeded", "The user has exceeded the number of videos."),
            "failed 400 RATE_LIMIT social/uploadLimitExceeded",
        ),
        ("youtube", youtube::error(503, "backendError", "Backend Error"), "failed 503 TRANSIENT social/503"),
        ("openai", openai::rate_limit(), "failed 429 RATE_LIMIT openai/rate_limit_exceeded"),
        ("openai", openai::overloaded(), "failed 503 TRANSIENT openai/503"),
    ]);
    for (route, id, act, _) in &rows {
        social.send_into(route, id, act.clone());
    }
    for (route, id, _, told) in &rows {
        let job = social.scene.retrying(id, 1);
        assert_eq!(tries(&job), [*told], "{id}");
        // At once, +60 s, +300 s: so the first wait is a minute and up to a fifth more.
        let wait = job["attempts"][0]["nextRetryDelayMs"].as_u64().unwrap();
        assert!((60_000..=72_000).contains(&wait), "{id} waits {wait} ms");
        social.far_end(route).was_asked(id, 1);
    }
    assert_eq!(social.scene.get("/v1/accounts")["items"], json!([]));
}

#[test]
fn f7_f8_what_no_retry_can_mend_is_failed_at_once_by_status_and_by_body() {
    let social = Social::with("");
    let rows = rows(vec![
        ("instagram", page(400), "failed 400 PERMANENT social/400"),
        ("instagram", page(401), "failed 401 PERMANENT social/401"),
        ("instagram", page(403), "failed 403 PERMANENT social/403"),
        ("instagram", page(404), "failed 404 PERMANENT social/404"),
        ("instagram", graph::wrong_parameter(), "failed 400 PERMANENT social/400"),
        ("instagram", graph::duplicate_post(), "failed 400 PERMANENT social/graph-506"),
        ("instagram", graph::token_expired(), "failed 400 PERMANENT social/graph-190"),
        ("tiktok", tiktok::error(400, "invalid_params"), "failed 400 PERMANENT social/invalid_params"),
        (
            "tiktok",
            tiktok::error(401, "access_token_invalid"),
            "failed 401 PERMANENT social/access_token_invalid",
        ),
        (
            "youtube",
            youtube::error(404, "videoNotFound", "The video cannot be found."),
            "failed 404 PERMANENT social/404",
        ),
        (
            "youtube",
            youtube::error(403, "forbidden", "The request is not properly authorized."),
            "failed 403 PERMANENT social/403",
        ),
        ("openai", openai::bad_request(), "failed 400 PERMANENT openai/400"),
        ("openai", openai::invalid_key(), "failed 401 PERMANENT openai/401"),
        ("openai", openai::out_of_credit(), "failed 429 PERMANENT openai/insufficient_quota"),
    ]);
    for (route, id, act, _) in &rows {
        social.send_into(route, id, act.clone());
    }
    for (route, id, _, told) in &rows {
        assert_eq!(tries(&social.scene.buried(id, "PERMANENT")), [*told], "{id}");
        social.far_end(route).was_asked(id, 1);
    }
}

#[test]
fn what_is_well_arrives_at_each_provider_with_its_credential() {
    let social = Social::with("");
    for (route, token, answer) in [
        ("instagram", graph::TOKEN, json!({ "id": "17889455560051444" })),
        ("tiktok", tiktok::TOKEN, json!("v_pub_url~v2.123456789")),
        ("youtube", youtube::TOKEN, json!("dQw4w9WgXcQ")),
        ("openai", openai::KEY, json!("Olá!")),
    ] {
        let id = format!("well-{route}");
        social.scene.send(route, "acme", &id, &post(&id));
        let job = social.scene.sent(&id);
        assert_eq!(tries(&job), ["sent"]);
        let told = match route {
            "tiktok" => &job["answer"]["data"]["publish_id"],
            "youtube" => &job["answer"]["id"],
            "openai" => &job["answer"]["choices"][0]["message"]["content"],
            _ => &job["answer"],
        };
        assert_eq!(*told, answer);
        let request = social.far_end(route).only(&id);
        assert_eq!(
            (&*request.path, request.header("authorization")),
            ("/v1/posts", &*format!("Bearer {token}"))
        );
    }
}

#[test]
fn f9_f10_f11_a_failed_post_is_told_and_kept_with_its_context() {
    let social = Social::with("");
    let listener = social.scene.listen();
    social.instagram.always("post-1", graph::duplicate_post());
    let body = json!({
        "jobId": "post-1", "route": "instagram", "companyId": "acme", "data": post("post-1"), "userId": "ana",
        "correlationId": "campaign-9",
    });
    social.scene.enqueue(body);
    let entry = social.scene.buried("post-1", "PERMANENT");
    assert_eq!((&entry["userId"], &entry["correlationId"]), (&json!("ana"), &json!("campaign-9")));
    assert_eq!((&entry["route"], &entry["originalData"]), (&json!("instagram"), &post("post-1")));
    assert!(entry["attempts"][0]["startedAt"].is_string() && entry["attempts"][0]["endedAt"].is_string());
    assert!(entry["lastFailureReason"].as_str().unwrap().contains("Duplicate status message"));
    let event = listener.hears("JobFailed", "post-1");
    assert_eq!(
        (&event["data"]["userId"], &event["data"]["rule"]),
        (&json!("ana"), &json!("social/graph-506"))
    );
}

#[test]
fn f8_a_refused_credential_marks_one_companys_account_and_harms_no_other() {
    for (status, act) in [(401, page(401)), (400, graph::token_expired())] {
        let social = Social::with("");
        let scene = &social.scene;
        let listener = scene.listen();
        social.instagram.always("expired", act);
        scene.send("instagram", "acme", "expired", &post("expired"));
        scene.buried("expired", "PERMANENT");

        let event = listener.hears("token_expired", "expired");
        assert_eq!((&event["companyId"], &event["data"]["provider"]), (&json!("acme"), &json!("instagram")));
        let accounts = scene.get("/v1/accounts");
        let [account] = &accounts["items"].as_array().unwrap()[..] else { panic!("{accounts:#}") };
        for (name, value) in [
            ("provider", "instagram"),
            ("companyId", "acme"),
            ("status", "token_expired"),
            ("jobId", "expired"),
            ("errorCode", &*status.to_string()),
        ] {
            assert_eq!(account[name], value, "{account:#}");
        }
        social.instagram.was_asked("expired", 1);

        scene.send("instagram", "other", "well", &post("well"));
        assert_eq!(tries(&scene.sent("well")), ["sent"]);
        scene.send("tiktok", "acme", "elsewhere", &post("elsewhere"));
        scene.sent("elsewhere");
        assert_eq!(scene.get("/v1/accounts")["items"].as_array().unwrap().len(), 1);

        scene.send("instagram", "acme", "signed-in-again", &post("signed-in-again"));
        scene.sent("signed-in-again");
        eventually(|| scene.get("/v1/accounts")["items"] == json!([]));
        assert_eq!(listener.count("token_expired"), 1);
    }
}

#[test]
fn a_mark_survives_a_restart() {
    let Social { instagram, scene, .. } = Social::with("");
    instagram.always("expired", graph::token_expired());
    scene.send("instagram", "acme", "expired", &post("expired"));
    scene.buried("expired", "PERMANENT");
    let accounts = || scene.get("/v1/accounts")["items"].clone();
    eventually(|| accounts() != json!([]));
    let before = accounts();
    assert_eq!(scene.restarted().get("/v1/accounts")["items"], before);
}

#[test]
fn a_person_takes_the_mark_off_an_account() {
    let social = Social::with("");
    social.send_into("openai", "refused", openai::invalid_key());
    social.scene.buried("refused", "PERMANENT");
    eventually(|| social.scene.get("/v1/accounts")["items"] != json!([]));
    let path = "/v1/accounts/openai/acme";
    assert_eq!(social.scene.ask("DELETE", path, &Value::Null).0, 204);
    assert_eq!(social.scene.get("/v1/accounts?companyId=acme")["items"], json!([]));
    assert_eq!(social.scene.ask("DELETE", path, &Value::Null).0, 404);
}
