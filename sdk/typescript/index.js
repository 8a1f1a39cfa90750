export { Failure, Refused, abortTurn, askApproval, definePlugin, emitEvents, emitTrace, enqueueMessages, replaceToolArgs, shortCircuitTool, tool } from "./lib/define.js";
export { serve } from "./lib/instance.js";
