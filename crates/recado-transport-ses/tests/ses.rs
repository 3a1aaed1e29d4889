//! SES against far ends on real sockets: one that misbehaves on command, and one that is moto.

mod ses {
    mod answers;
    mod chain;
    mod far_end;
    mod given;
    mod moto;
    mod names;
    mod network;
    mod requests;
    mod secrets;
    mod set_up;
}
