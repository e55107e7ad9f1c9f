//! Your turn: a request that waits for whoever runs the demo, and what becomes of it.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{Stage, show};

/// How often the agent repeats its call while nobody has answered.
const AGAIN: Duration = Duration::from_secs(2);

const TOOL: &str = "refund_order";

fn call() -> Value {
    json!({"order_id": "A-1001", "amount": "4.90"})
}

impl Stage {
    /// Asks for a refund that only you can approve, and tells where; `false`: this policy does not hold it.
    pub(super) async fn ask_you(
        &self,
        number: usize,
        print: show::Print<'_>,
    ) -> anyhow::Result<bool> {
        let agent = super::Agent::new(self.running.addresses().agents);
        let answer = agent.run(TOOL, &call()).await?;
        let said: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        let field = |name: &str| said.get(name).and_then(Value::as_str);
        let (Some("approval_required"), Some(ticket)) = (field("error"), field("request_id"))
        else {
            return Ok(false);
        };
        let approvers = self.running.addresses().approvers;
        let approvers = approvers.context("there is no approver listener")?;
        show::your_turn(print, number, approvers, ticket, &self.key);
        self.watch.take();
        Ok(true)
    }

    /// The agent repeats its call until somebody has answered, and once more after it went through.
    pub(super) async fn follow_you(&self, print: show::Print<'_>) -> anyhow::Result<()> {
        let agent = super::Agent::new(self.running.addresses().agents);
        let mut answer = agent.run(TOOL, &call()).await?;
        while answer.body.contains("\"approval_pending\"") {
            self.watch.take();
            tokio::time::sleep(AGAIN).await;
            answer = agent.run(TOOL, &call()).await?;
        }
        print("");
        show::repeated(print, TOOL, &answer);
        show::verdicts(print, &self.watch.take());
        show::database(print, self.judge.as_ref()).await?;
        Ok(())
    }
}
