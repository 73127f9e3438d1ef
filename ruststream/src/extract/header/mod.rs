//! Headers: one by name and type, or all of them.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::extract::Extract;
use crate::extract::ExtractOptional;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::headers::HeaderMap;
use crate::headers::HeaderValue;
use crate::message::Message;
use crate::message::Native;
use crate::registration::Requirements;

pub use value::FromHeader;
pub use value::InvalidHeader;

mod value;

/// The name of a header, and the type its value has: what [`Header`] takes.
///
/// Usually made by [`header!`](crate::header), which writes these lines:
///
/// ```
/// use ruststream::Header;
/// use ruststream::extract::HeaderName;
///
/// struct Tenant;
///
/// impl HeaderName for Tenant {
///     const NAME: &'static str = "tenant";
///     type Value = String;
/// }
///
/// async fn handle(Header(tenant): Header<Tenant>) {
///     assert_eq!(tenant, "a");
/// }
/// # let _ = handle(Header("a".to_owned()));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name a header",
    label = "not a `HeaderName`",
    note = "`Header` takes the name of a header, not its value's type: declare one with `ruststream::header!(Tenant: String = \"tenant\")` and take `Header<Tenant>`"
)]
pub trait HeaderName {
    /// The name, compared as it is.
    const NAME: &'static str;

    /// The value's type.
    type Value: FromHeader;
}

/// Name headers, and say what their values are.
///
/// # Examples
///
/// ```
/// use ruststream::Header;
///
/// ruststream::header! {
///     /// Whose order it is.
///     pub Tenant: String = "tenant";
///     Priority: u8 = "priority";
/// }
///
/// async fn handle(tenant: Header<Tenant>, priority: Option<Header<Priority>>) {
///     let priority = priority.map_or(0, Header::into_inner);
///     assert_eq!((tenant.as_str(), priority), ("a", 7));
/// }
/// # let _ = handle(Header("a".to_owned()), Some(Header(7)));
/// ```
#[macro_export]
macro_rules! header {
    ($($(#[$attribute:meta])* $visibility:vis $name:ident: $value:ty = $header:expr);+ $(;)?) => { $(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug)]
        $visibility struct $name;

        impl $crate::extract::HeaderName for $name {
            const NAME: &'static str = $header;
            type Value = $value;
        }
    )+ };
}

/// The value of one header; of several with its name, the first.
///
/// A header that is missing, or whose value does not fit the type, makes the delivery undecodable.
/// `Option<Header<…>>` is `None` when it is missing; `Result<Header<…>, Rejection>` lets the handler
/// see either. What fits which type is said at [`FromHeader`].
///
/// For an example see [`header!`](crate::header).
pub struct Header<N: HeaderName>(pub N::Value);

impl<N: HeaderName> Header<N> {
    /// The value.
    pub fn into_inner(self) -> N::Value {
        self.0
    }
}

impl<N: HeaderName<Value: Send>> Extract for Header<N> {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        Self::extract_optional(from)?.ok_or_else(|| missing(N::NAME))
    }

    fn requires(needs: &mut Requirements) {
        needs.decodes();
        needs.per_message("Header");
    }
}

impl<N: HeaderName<Value: Send>> ExtractOptional for Header<N> {
    fn extract_optional(from: &mut Incoming<'_>) -> Result<Option<Self>, Rejection> {
        const {
            assert!(
                !N::NAME.is_empty(),
                "the name of a header must not be empty"
            );
        };
        match from.delivery().headers().read(N::NAME) {
            Ok(value) => Ok(value.map(Self)),
            Err(error) => Err(invalid(N::NAME, error)),
        }
    }
}

#[cold]
fn missing(name: &str) -> Rejection {
    Rejection::undecodable(format_args!("header `{name}` is missing"))
}

#[cold]
fn invalid(name: &str, error: InvalidHeader) -> Rejection {
    Rejection::undecodable(format_args!("header `{name}`: {error}"))
}

impl<N: HeaderName> Deref for Header<N> {
    type Target = N::Value;

    fn deref(&self) -> &N::Value {
        &self.0
    }
}

impl<N: HeaderName<Value: Clone>> Clone for Header<N> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Shows the name, not the value: headers carry credentials too.
impl<N: HeaderName> fmt::Debug for Header<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Header({})", N::NAME)
    }
}

impl HeaderMap {
    /// The first value under `name` as a `T`, or `None` where there is no such header.
    ///
    /// # Errors
    ///
    /// It is there and does not fit the type.
    ///
    /// # Examples
    ///
    /// ```
    /// use ruststream::Message;
    ///
    /// let message = Message::new("").with_header("priority", "7");
    /// assert_eq!(message.headers().read::<u8>("priority")?, Some(7));
    /// assert_eq!(message.headers().read::<u8>("tenant")?, None);
    /// # Ok::<(), ruststream::extract::InvalidHeader>(())
    /// ```
    pub fn read<T: FromHeader>(&self, name: &str) -> Result<Option<T>, InvalidHeader> {
        self.first(name).map(T::from_header).transpose()
    }
}

/// All headers of the message: a share of them, not a copy.
///
/// # Examples
///
/// ```
/// use ruststream::HeaderValue;
/// use ruststream::Headers;
///
/// async fn handle(headers: Headers) {
///     let tenant = headers.first("tenant").and_then(HeaderValue::as_str);
///     assert_eq!(tenant, Some("a"));
/// }
/// # let _ = handle(Headers::from_iter([("tenant", "a")]));
/// ```
#[derive(Clone, Debug)]
pub struct Headers(Arc<Native>);

impl Extract for Headers {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        Ok(Self(Arc::clone(&from.delivery().native)))
    }

    fn requires(needs: &mut Requirements) {
        needs.per_message("Headers");
    }
}

impl Deref for Headers {
    type Target = HeaderMap;

    fn deref(&self) -> &HeaderMap {
        self.0.message().headers()
    }
}

/// Headers for calling a handler in a test.
impl<N: Into<bytestring::ByteString>, V: Into<HeaderValue>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(headers: I) -> Self {
        let message = headers
            .into_iter()
            .fold(Message::default(), |message, (name, value)| {
                message.with_header(name, value)
            });
        Self(Arc::new(Native::new("", message)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::testing::Fixture;

    crate::header! {
        Tenant: String = "tenant";
        Priority: u8 = "priority"
    }

    fn with(name: &'static str, value: impl Into<HeaderValue>) -> Fixture {
        Fixture::new(Message::new("").with_header(name, value))
    }

    #[test]
    fn the_first_header_of_the_name_counts() {
        let message = Message::new("")
            .with_header("Tenant", "other case")
            .with_header("tenant", "first")
            .with_header("tenant", "second");
        let Header(tenant): Header<Tenant> = Fixture::new(message).take().unwrap();
        assert_eq!(tenant, "first");
    }

    #[test]
    fn a_missing_header_is_refused_for_good_unless_it_is_optional() {
        let refused = Fixture::new("").take::<Header<Tenant>>().unwrap_err();
        assert!(refused.is_undecodable());
        assert_eq!(refused.reason(), "header `tenant` is missing");
        let absent: Option<Header<Tenant>> = Fixture::new("").take().unwrap();
        assert!(absent.is_none());
    }

    #[test]
    fn a_header_that_does_not_fit_is_refused_even_when_it_is_optional_and_never_shown() {
        for refused in [
            with("priority", "secret")
                .take::<Header<Priority>>()
                .unwrap_err(),
            with("priority", "secret")
                .take::<Option<Header<Priority>>>()
                .unwrap_err(),
        ] {
            assert!(refused.is_undecodable());
            let expected = "header `priority`: expected an integer from 0 to 255, found text";
            assert_eq!(refused.reason(), expected);
        }
        let seen: Result<Header<Priority>, Rejection> = with("priority", "secret").take().unwrap();
        assert!(seen.is_err());
        let debug = format!("{:?}", with("tenant", "secret").take::<Header<Tenant>>());
        assert_eq!(debug, "Ok(Header(tenant))");
    }

    // case: B08 B09
    #[test]
    fn a_text_header_is_read_beside_values_of_any_kind() {
        let odd: [HeaderValue; 8] = [
            HeaderValue::Null,
            true.into(),
            1.5.into(),
            bytes::Bytes::from_static(&[0xFF, 0xFE, 0]).into(),
            HeaderValue::Timestamp(i64::MIN),
            HeaderValue::List(vec![HeaderValue::Null]),
            HeaderValue::Map(vec![("a".into(), 1_u8.into())]),
            u64::MAX.into(),
        ];
        let message = odd
            .into_iter()
            .fold(Message::new(""), |message, value| {
                message.with_header("h", value)
            })
            .with_header("tenant", "a");
        let mut fixture = Fixture::new(message);
        let (tenant, all): (Header<Tenant>, Headers) = fixture.take().unwrap();
        assert_eq!((tenant.as_str(), all.len()), ("a", 9));
    }

    #[test]
    fn headers_are_a_share_of_the_message() {
        let mut fixture = with("tenant", "a");
        let headers: Headers = fixture.take().unwrap();
        assert!(std::ptr::eq(
            &raw const *headers,
            fixture.delivery.headers()
        ));
    }
}
