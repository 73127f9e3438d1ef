//! Handlers anywhere: nested modules, functions, beside a type or module of their name.
#![deny(warnings)]

mod outer {
    pub mod inner {
        use ruststream::Bytes;
        use ruststream::subscriber;

        const ADDRESS: &str = "deep";

        struct Private;

        #[subscriber(address = ADDRESS)]
        async fn deep(_: Bytes) -> Result<(), Private> {
            Err(Private)
        }

        impl std::fmt::Display for Private {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("private")
            }
        }

        impl ruststream::Failure for Private {
            fn outcome(&self) -> ruststream::Outcome {
                ruststream::Outcome::Drop
            }
        }
    }
}

mod fulfil {
    #[ruststream::subscriber(address = "fulfil")]
    pub async fn fulfil(_: ruststream::Bytes) {}
}

pub use fulfil::fulfil;

#[ruststream::subscriber(address = "ruststream")]
pub async fn ruststream(_: ::ruststream::Bytes) {}

fn main() {
    #[::ruststream::subscriber(address = "local")]
    async fn local(_: ::ruststream::Bytes) {}

    let registrations = ::ruststream::__private::inventory::iter::<::ruststream::registration::Registration>();
    let mut found: Vec<_> = registrations.map(|it| (it.name, it.module)).collect();
    found.sort_unstable();
    let names: Vec<_> = found.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["deep", "fulfil", "local", "ruststream"]);
    assert!(found[0].1.ends_with("::outer::inner"), "{}", found[0].1);
}
