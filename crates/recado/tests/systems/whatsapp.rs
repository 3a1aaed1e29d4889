//! WhatsApp by an Evolution API server.

use serde_json::{Value, json};

use super::far_ends::receiver::{self, verified};
use super::far_ends::{Act, evolution, page};
use super::scene::{Scene, tries, waits};

/// Retried at once, so that a test can see the end of it.
const HASTY: &str = "[routes.whatsapp]\npolicy = { schedule = [\"0s\", \"20ms\", \"20ms\", \"20ms\"] }\n";

fn text(number: &str) -> Value {
    json!({ "number": number, "text": "Olá! Sua consulta é amanhã às 9h." })
}

#[test]
fn text_media_and_audio_arrive_each_once_under_the_jobs_id() {
    let far_end = evolution::start();
    let scene = Scene::with(&evolution::provider(&far_end));
    let media = |kind: &str, more: Value| {
        let mut media = json!({ "type": kind, "url": "https://example.com/file" });
        media.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "number": "5511900000001", "media": media })
    };
    for (id, data, path) in [
        ("text", text("5511900000001"), "/message/sendText/main"),
        ("image", media("image", json!({ "caption": "Ação" })), "/message/sendMedia/main"),
        ("audio", media("audio", json!({})), "/message/sendWhatsAppAudio/main"),
    ] {
        scene.send("whatsapp", "acme", id, &data);
        let job = scene.sent(id);
        assert_eq!(tries(&job), ["sent"]);
        assert_eq!(job["answer"]["status"], "PENDING", "{job:#}");
        far_end.was_asked(id, 1);
        let request = far_end.only(path);
        assert_eq!((&*request.method, request.header("apikey")), ("POST", evolution::KEY));
        assert_eq!(request.json()["number"], "5511900000001");
    }
    assert_eq!(far_end.only("sendText").json()["text"], "Olá! Sua consulta é amanhã às 9h.");
    assert_eq!(far_end.only("sendMedia").json()["caption"], "Ação");
}

#[test]
fn w1_what_no_retry_can_mend_is_buried_after_one_message() {
    let far_end = evolution::start();
    let scene = Scene::with(&format!("{}{HASTY}", evolution::provider(&far_end)));
    for (number, act, told) in [
        ("5511900000010", evolution::wrong_payload(), "failed 400 PERMANENT evolution/400"),
        (
            "5511900000011",
            evolution::not_on_whatsapp("5511900000011"),
            "failed 400 PERMANENT evolution/not-on-whatsapp",
        ),
        ("5511900000012", evolution::not_found(), "failed 404 PERMANENT evolution/404"),
        (
            "5511900000013",
            evolution::unknown_instance("main"),
            "failed 404 PERMANENT evolution/unknown-instance",
        ),
        ("5511900000014", evolution::refusal_in_a_yes(), "failed 131026 PERMANENT evolution/graph-131026"),
    ] {
        far_end.always(number, act);
        scene.send("whatsapp", "acme", number, &text(number));
        let entry = scene.buried(number, "PERMANENT");
        assert_eq!(tries(&entry), [told]);
        assert_eq!(entry["failedAttempts"], 1);
        far_end.was_asked(number, 1);
    }
}

#[test]
fn w1_what_may_work_later_is_sent_again_and_arrives() {
    let far_end = evolution::start();
    let scene = Scene::with(&format!("{}{HASTY}", evolution::provider(&far_end)));
    for (number, act, told) in [
        ("5511900000020", evolution::too_many_requests(), "failed 429 RATE_LIMIT evolution/429"),
        ("5511900000021", evolution::internal_error(), "failed 500 TRANSIENT evolution/500"),
        ("5511900000022", page(502), "failed 502 TRANSIENT evolution/502"),
        ("5511900000023", page(503), "failed 503 TRANSIENT evolution/503"),
        ("5511900000024", page(504), "failed 504 TRANSIENT evolution/504"),
        ("5511900000025", evolution::connection_closed(), "failed 400 TRANSIENT evolution/connection-closed"),
        ("5511900000026", evolution::rate_overlimit(), "failed 400 RATE_LIMIT evolution/rate-overlimit"),
        ("5511900000027", evolution::timed_out(), "uncertain 400 TRANSIENT evolution/timed-out"),
        ("5511900000028", Act::hang_up(), "uncertain CONNECTION_LOST TRANSIENT evolution/network"),
    ] {
        far_end.orders(number, [act]);
        scene.send("whatsapp", "acme", number, &text(number));
        assert_eq!(tries(&scene.sent(number)), [told, "sent"]);
        far_end.was_asked(number, 2);
        scene.is_not_buried(number);
    }
}

#[test]
fn w1_a_server_that_hangs_is_left_at_the_timeout_and_asked_again() {
    let far_end = evolution::start();
    let config = format!("{}{HASTY}timeout = \"2s\"\n", evolution::provider(&far_end));
    let scene = Scene::with(&config);
    far_end.orders("5511900000030", [Act::silence()]);
    scene.send("whatsapp", "acme", "hung", &text("5511900000030"));
    let told = tries(&scene.sent("hung"));
    assert_eq!(told[0], "uncertain TIMEOUT TRANSIENT evolution/network");
    far_end.was_asked("hung", told.len());
}

#[test]
fn a_wrong_key_is_the_accounts_trouble_and_is_not_tried_twice() {
    let far_end = evolution::start();
    let config = evolution::provider(&far_end).replace(evolution::KEY, "a-key-of-yesterday");
    let scene = Scene::with(&format!("{config}{HASTY}"));
    scene.send("whatsapp", "acme", "locked-out", &text("5511900000035"));
    let entry = scene.buried("locked-out", "PERMANENT");
    assert_eq!(tries(&entry), ["failed 401 PERMANENT evolution/401"]);
    assert_eq!(entry["attempts"][0]["blame"], "credential");
    far_end.was_asked("locked-out", 1);
    assert!(!entry.to_string().contains("a-key-of-yesterday"), "{entry:#}");
}

#[test]
fn w2_four_failures_in_a_row_end_in_the_dead_letter_queue_under_one_key() {
    let far_end = evolution::start();
    let hasty = "[routes.whatsapp]\npolicy = { schedule = [\"0s\", \"20ms\", \"40ms\", \"80ms\"] }\n";
    let scene = Scene::with(&format!("{}{hasty}", evolution::provider(&far_end)));
    far_end.always("5511900000001", page(503));
    scene.send("whatsapp", "acme", "order-9", &text("5511900000001"));
    let entry = scene.buried("order-9", "EXHAUSTED");
    assert_eq!(tries(&entry), ["failed 503 TRANSIENT evolution/503"; 4]);
    assert_eq!(waits(&entry), [20, 40, 80]);
    assert_eq!((entry["failedAttempts"].as_u64(), entry["lastFailureCode"].as_str()), (Some(4), Some("503")));
    assert_eq!(entry["originalData"]["number"], "5511900000001");
    far_end.was_asked("order-9", 4);

    far_end.recovers();
    scene.recado(&["dlq", "replay", "order-9", "--note", "the server is back"]).done();
    assert_eq!(tries(&scene.sent("order-9")).last().unwrap(), "sent");
    far_end.was_asked("order-9", 5);
    scene.is_not_buried("order-9");
}

#[test]
fn w6_a_failure_is_visible_to_the_crm_by_api_by_event_and_by_signed_callback() {
    let (far_end, crm) = (evolution::start(), receiver::start());
    let scene = Scene::with(&format!("{}{}", evolution::provider(&far_end), receiver::ALLOWED));
    let (_, secret) = scene.endpoint("acme", &format!("{}/crm", crm.url()), &["JobFailed", "JobSent"]);
    let listener = scene.listen();
    far_end.always("5511900000040", evolution::not_on_whatsapp("5511900000040"));
    let body = json!({
        "jobId": "lead-7", "route": "whatsapp", "companyId": "acme", "data": text("5511900000040"),
        "correlationId": "deal-3", "userId": "ana",
    });
    scene.enqueue(body);

    let job = scene.job_once("lead-7", "failed");
    assert_eq!((job["correlationId"].as_str(), job["userId"].as_str()), (Some("deal-3"), Some("ana")));

    let event = listener.hears("JobFailed", "lead-7");
    assert_eq!(event["companyId"], "acme");
    for (name, value) in [
        ("status", "failed"),
        ("correlationId", "deal-3"),
        ("userId", "ana"),
        ("errorCode", "400"),
        ("errorClassification", "PERMANENT"),
        ("rule", "evolution/not-on-whatsapp"),
        ("cause", "PERMANENT"),
    ] {
        assert_eq!(event["data"][name], value, "{name} in {event:#}");
    }

    let callbacks = crm.once("lead-7", 1);
    assert_eq!(verified(&callbacks[0], &secret), event, "the callback tells what the stream told");
    assert_eq!(callbacks[0].path, "/crm");

    scene.send("whatsapp", "acme", "lead-8", &text("5511900000041"));
    let callback = crm.once("lead-8", 1);
    assert_eq!(verified(&callback[0], &secret)["type"], "JobSent");
    assert_eq!(crm.ledger().len(), 2);
}

#[test]
fn w6_another_companys_endpoint_hears_nothing_of_it() {
    let (far_end, mine, theirs) = (evolution::start(), receiver::start(), receiver::start());
    let scene = Scene::with(&format!("{}{}", evolution::provider(&far_end), receiver::ALLOWED));
    scene.endpoint("acme", &mine.url(), &[]);
    scene.endpoint("other", &theirs.url(), &[]);
    scene.send("whatsapp", "acme", "mine", &text("5511900000042"));
    mine.once("mine", 1);
    scene.send("whatsapp", "other", "theirs", &text("5511900000043"));
    theirs.once("theirs", 1);
    assert_eq!((mine.about("theirs").len(), theirs.about("\"mine\"").len()), (0, 0));
}

#[test]
fn w7_one_number_in_trouble_neither_holds_up_the_others_nor_hears_more_after_a_permanent_error() {
    let far_end = evolution::start();
    // However slow this machine is, the hanging one hangs until the end of the test.
    let patient = "[routes.whatsapp]\ntimeout = \"10m\"\n";
    let scene = Scene::with(&format!("{}{patient}", evolution::provider(&far_end)));
    far_end.always("5511900000050", evolution::connection_closed());
    far_end.always("5511900000051", evolution::not_on_whatsapp("5511900000051"));
    far_end.always("5511900000052", Act::silence());
    for (id, number) in
        [("retried", "5511900000050"), ("refused", "5511900000051"), ("hanging", "5511900000052")]
    {
        scene.send("whatsapp", "acme", id, &text(number));
    }
    scene.retrying("retried", 1);
    scene.buried("refused", "PERMANENT");
    far_end.once("5511900000052", 1);

    let others: Vec<_> = (60..80).map(|n| format!("55119000000{n}")).collect();
    for number in &others {
        let job = json!({ "jobId": number, "route": "whatsapp", "companyId": "acme", "data": text(number) });
        scene.enqueue(job);
    }
    for number in &others {
        scene.sent(number);
        far_end.was_asked(number, 1);
    }
    assert_eq!(scene.job("hanging")["status"], "delivering");
    far_end.was_asked("refused", 1);
    assert_eq!(scene.get("/v1/dlq?route=whatsapp")["items"].as_array().unwrap().len(), 1);
}
