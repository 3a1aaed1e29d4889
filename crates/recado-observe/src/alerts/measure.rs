//! The figures that rules measure, as a table: unit, span, subject, and the sentence in both languages.

use recado_core::alert::Unit;

/// The time that a figure speaks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Span {
    /// A count over the rule's window.
    Window,
    /// A current value.
    Now,
}

pub(crate) struct MeasureRow {
    unit: Unit,
    span: Span,
    /// The label that tells the subjects of a measure apart in Prometheus.
    pub(crate) subject_label: Option<&'static str>,
    /// In English and in Portuguese, with `{value}` and `{window}` to fill in.
    pub(crate) sentence: (&'static str, &'static str),
}

macro_rules! measures {
    ($($(#[$doc:meta])* $name:ident: $unit:ident, $span:ident, $subject:expr, $en:literal, $pt:literal;)*) => {
        /// The measured figure, and its subject. Volumes count what the figure is a share or a mean of.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Measure {
            $($(#[$doc])* $name,)*
        }

        impl Measure {
            pub(crate) fn row(self) -> MeasureRow {
                let (unit, span, subject_label, sentence) = match self {
                    $(Measure::$name => (Unit::$unit, Span::$span, $subject, ($en, $pt)),)*
                };
                MeasureRow { unit, span, subject_label, sentence }
            }
        }
    };
}

const ALL: Option<&str> = None;
const ROUTE: Option<&str> = Some("route");

measures! {
    /// Share of a route's attempts that failed.
    FailureRate: Share, Window, ROUTE,
        "{value} of the attempts failed within {window}",
        "{value} das tentativas falharam em {window}";
    /// Dead letters of all routes.
    DeadLetters: Count, Now, ALL,
        "{value} jobs are in the dead letter queue",
        "há {value} tarefas na fila de mensagens mortas";
    /// Share of a route's ended jobs that became dead letters.
    DeadLetterRate: Share, Window, ROUTE,
        "{value} of the jobs that ended within {window} went to the dead letter queue",
        "{value} das tarefas encerradas em {window} foram para a fila de mensagens mortas";
    /// Dead letters of a company.
    DeadLettersOfCompany: Count, Now, Some("company_id"),
        "{value} of its jobs are in the dead letter queue",
        "{value} de suas tarefas estão na fila de mensagens mortas";
    /// Time of a route's attempts from due to done; 19 of 20 took less.
    ProcessingTime: Time, Window, ROUTE,
        "one attempt in twenty took {value} or longer from due to done within {window}",
        "uma em cada vinte tentativas levou {value} ou mais para ser concluída em {window}";
    /// Time since a route's oldest unclaimed job fell due.
    QueueAge: Time, Now, ROUTE,
        "the oldest job has been due for {value}",
        "a tarefa mais antiga espera há {value}";
    /// Share of a route's judged tries that met a permanent error.
    PermanentRate: Share, Window, ROUTE,
        "{value} of the attempts within {window} met a permanent error",
        "{value} das tentativas em {window} tiveram erro permanente";
    /// Share of a route's retries that wait at the policy's cap.
    AtCapRate: Share, Window, ROUTE,
        "{value} of the retries within {window} wait for as long as the policy allows",
        "{value} das novas tentativas em {window} esperam o máximo que a política permite";
    /// Deviation of a route's jitter from an even spread.
    JitterDeviation: Share, Window, ROUTE,
        "the jitter of the waits within {window} is {value} off an even spread",
        "o jitter das esperas em {window} desvia {value} da distribuição uniforme";
    /// Mean wait of a route's retries.
    MeanBackoff: Time, Window, ROUTE,
        "retries within {window} wait {value} on average",
        "as novas tentativas em {window} esperam {value} em média";
    /// Used share of the store's maximum size.
    StoreUse: Share, Now, ALL,
        "the store is {value} full",
        "o armazenamento está {value} cheio";
    /// Writes that the full store refused.
    RejectedWrites: Count, Window, ALL,
        "writes that the full store refused within {window}: {value}",
        "gravações que o armazenamento cheio recusou em {window}: {value}";
    /// Dead letters that went to a file because the queue was over its size.
    ArchivedDeadLetters: Count, Window, ALL,
        "dead letters archived within {window} because their queue is over its size: {value}",
        "mensagens mortas arquivadas em {window} porque a fila passou do tamanho: {value}";
    /// Time since the audit trail's files were last complete.
    TrailLateness: Time, Now, ALL,
        "the audit trail's files are {value} behind",
        "os arquivos da trilha de auditoria estão atrasados em {value}";
    /// A provider's breaker is open.
    BreakerOpen: Fact, Now, Some("provider"),
        "its circuit breaker is open",
        "o circuit breaker está aberto";
    /// A route's failure rate in the window, as a multiple of its own last day's.
    FailureJump: Times, Window, ROUTE,
        "attempts fail {value} as often as over the last day",
        "as tentativas falham {value} o normal do último dia";
    /// An error code's share of all attempts in the window, as a multiple of its own last day's.
    CodeJump: Times, Window, Some("error_code"),
        "this error comes {value} as often as over the last day",
        "este erro ocorre {value} o normal do último dia";
}

impl Measure {
    pub fn unit(self) -> Unit {
        self.row().unit
    }

    /// Returns true if it never is more than 1. The distances that make up a deviation may add up to more.
    pub(super) fn is_share(self) -> bool {
        self.unit() == Unit::Share && self != Measure::JitterDeviation
    }

    /// Returns true if it is a current value, rather than a count over a window.
    pub(super) fn is_state(self) -> bool {
        self.row().span == Span::Now
    }
}
