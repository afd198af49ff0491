//! The functions that a page calls. One message lies in the module's memory: the page writes a question there, and reads the answer.
//!
//! Both are JSON. An answer is an [`Answer`], or an object with `error` alone.

use crate::answer::{Answer, Question};
use serde::Serialize;
use std::cell::RefCell;

thread_local! {
    static MESSAGE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Makes space for a question of so many bytes, and says where it is.
#[unsafe(no_mangle)]
pub extern "C" fn what_if_question(bytes: usize) -> *mut u8 {
    MESSAGE.with_borrow_mut(|message| {
        message.clear();
        message.resize(bytes, 0);
        message.as_mut_ptr()
    })
}

/// Puts the answer in the question's place; gives its length in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn what_if_answer() -> usize {
    MESSAGE.with_borrow_mut(|message| {
        *message = answer(message);
        message.len()
    })
}

/// Where the answer is.
#[unsafe(no_mangle)]
pub extern "C" fn what_if_message() -> *const u8 {
    MESSAGE.with_borrow(|message| message.as_ptr())
}

#[derive(Serialize)]
#[serde(untagged)]
enum Reply {
    Answer(Box<Answer>),
    Error { error: String },
}

fn answer(question: &[u8]) -> Vec<u8> {
    let asked = serde_json::from_slice::<Question>(question)
        .map_err(|error| format!("the page asked what its module does not understand: {error}"));
    let reply = match asked.and_then(|question| question.answer()) {
        Ok(answer) => Reply::Answer(Box::new(answer)),
        Err(error) => Reply::Error { error },
    };
    serde_json::to_vec(&reply).expect("an answer is JSON: its keys are text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{question, sliders};
    use serde_json::{Value, json};

    /// As the page's script does it.
    fn ask(question: &str) -> Value {
        let place = what_if_question(question.len());
        // SAFETY: the module made that much space there.
        unsafe { place.copy_from_nonoverlapping(question.as_ptr(), question.len()) };
        let length = what_if_answer();
        // SAFETY: the answer has that length.
        let answer = unsafe { std::slice::from_raw_parts(what_if_message(), length) };
        serde_json::from_slice(answer).unwrap()
    }

    #[test]
    fn a_question_through_the_modules_memory_is_the_question_itself() {
        let asked = json!({ "sliders": sliders(), "cores": 16, "change": "split=2" });
        let direct = question(sliders(), 16.0, "split=2").answer().unwrap();
        assert_eq!(ask(&asked.to_string()), serde_json::to_value(direct).unwrap());
        assert!(ask("{}")["error"].as_str().unwrap().contains("does not understand"));
        let wrong = json!({ "sliders": sliders(), "cores": 16, "change": "split=0" });
        assert!(ask(&wrong.to_string())["error"].as_str().unwrap().contains("from 1 to 1024"));
    }
}
