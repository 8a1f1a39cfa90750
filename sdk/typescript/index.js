export { Failure, Refused, abortTurn, askApproval, contribute, definePlugin, emitEvents, emitTrace, enqueueMessages, replaceToolArgs, shortCircuitTool, switchFrame, systemPrompt, tool } from "./lib/define.js";
export { serve } from "./lib/instance.js";
