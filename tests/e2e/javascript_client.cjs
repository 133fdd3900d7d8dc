// Conductor's JavaScript SDK against a server: definitions, a worker, runs. Prints one JSON object of what it saw.
// Usage: node javascript_client.cjs FOLDER_OF_THE_SDK BASE_URL NAME
const path = require("path");
const [folder, serverUrl, name] = process.argv.slice(2);
process.env.CONDUCTOR_SERVER_URL = serverUrl;
process.env.CONDUCTOR_DISABLE_HTTP2 = "true";
const sdk = require(path.join(folder, "node_modules", "@io-orkes", "conductor-javascript"));

async function until(what, seconds = 30) {
  for (const end = Date.now() + seconds * 1000; Date.now() < end; ) {
    const found = await what();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`not true within ${seconds} s: ${what}`);
}

async function main() {
  const seen = {};
  const clients = await sdk.OrkesClients.from();
  const workflows = clients.getWorkflowClient();
  const metadata = clients.getMetadataClient();
  await metadata.registerTask({ name, retryCount: 1, retryDelaySeconds: 0, timeoutSeconds: 60, responseTimeoutSeconds: 30 });
  seen.taskRetries = (await metadata.getTask(name)).retryCount;
  const flow = new sdk.ConductorWorkflow(workflows, name)
    .add(sdk.simpleTask("greet", name, { name: "${workflow.input.name}" }))
    .outputParameters({ text: "${greet.output.text}" });
  await flow.register(true);
  seen.registered = (await metadata.getWorkflowDef(name)).tasks.length;
  let tries = 0;
  const worker = {
    taskDefName: name,
    execute: async (task) => {
      tries += 1;
      if (tries === 1) throw new Error("the first try fails");
      return { status: "COMPLETED", outputData: { text: `Hello ${task.inputData.name} – “ünïcode”` } };
    },
  };
  const manager = new sdk.TaskManager(clients.getClient(), [worker], { options: { pollInterval: 20, concurrency: 3 } });
  manager.startPolling();
  try {
    const id = await workflows.startWorkflow({ name, version: 1, input: { name: "world" }, correlationId: "js" });
    seen.id = id;
    const ended = await until(async () => {
      const run = await workflows.getWorkflow(id, true);
      return run.status === "RUNNING" ? null : run;
    });
    seen.status = ended.status;
    seen.output = ended.output;
    seen.tries = ended.tasks.map((task) => task.status);
    const executed = await workflows.executeWorkflow({ name, version: 1, input: { name: "again" } }, name, 1, "request-1");
    seen.executed = { status: executed.status ?? executed.targetWorkflowStatus, output: executed.output };
    seen.found = await until(async () => (await workflows.search(0, 10, `workflowType=${name}`, "*", "startTime:DESC")).totalHits === 2);
    await workflows.terminate(await workflows.startWorkflow({ name, version: 1, input: {} }), "enough").catch((error) => {
      if (!String(error.message).includes("COMPLETED")) throw error; // the worker was quicker
    });
    seen.missing = await workflows.getWorkflow("00000000-0000-7000-8000-000000000000", false).then(
      () => "found", (error) => String(error.message ?? error));
  } finally {
    await manager.stopPolling();
  }
  console.log(JSON.stringify(seen));
}

main().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
