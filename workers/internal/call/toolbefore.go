package call

import (
	"context"
	"sync"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
)

// beforeTools calls the hooks for every call of the reply, for all calls at the same time.
func (h *hooks) beforeTools(ctx context.Context) {
	calls := h.state.Turn().Calls
	decided := make([]callDecision, len(calls))
	var wait sync.WaitGroup
	for i := range calls {
		wait.Go(func() { decided[i] = h.decideCall(ctx, int64(i), &calls[i]) })
	}
	wait.Wait()
	for i := range decided {
		v := &decided[i]
		kept := len(h.in.Ran.Decisions)
		h.in.Ran.Decisions = append(h.in.Ran.Decisions, v.decisions...)
		if err := tooLarge(&h.in.Ran); err != nil { // above the limit of one record: this call fails, and those before it do not
			h.in.Ran.Decisions = h.in.Ran.Decisions[:kept]
			*v = failedBefore(int64(i), plugin.ClassResourceLimit, err)
		}
		if v.result != nil {
			h.in.Results = append(h.in.Results, *v.result)
		}
		if v.approval != nil {
			h.in.Asks = append(h.in.Asks, *v.approval)
		}
	}
}

// callDecision is the hooks' decision about one call.
type callDecision struct {
	decisions []events.Decision
	result    *events.ToolResult        // the call does not run
	approval  *events.ToolApprovalAsked // the call waits
}

func failedBefore(index int64, class string, err error) callDecision {
	r := Failed(index, class, plugin.CodeBefore, err)
	return callDecision{result: &r}
}

func (h *hooks) decideCall(ctx context.Context, index int64, c *projector.Call) callDecision {
	if !h.callable(c.Tool) && c.Tool != plugin.ToolCode { // no catalogue has the tool of a protocol's code
		// The call fails now: the tool may be there when the calls run, and nothing would have judged the call.
		r := resultOf(index, failureOf(notOffered(c.Tool)))
		return callDecision{result: &r}
	}
	one := turn.Call{Index: index, Effect: turn.ToolEffect(h.turn, h.needs.Iteration, index), ID: c.ID, Tool: c.Tool, Holder: c.Holder, Term: c.Term}
	args, err := blob.Body(ctx, h.env.Blobs, c.Args, c.Blob)
	if err != nil {
		return failedBefore(index, plugin.ClassInternal, err)
	}
	got := h.hooksBefore(ctx, h.stack, h.pluginCall(&one, false), c.Tool, args)
	for i := range got.decisions {
		got.decisions[i].Call = index
	}
	v := callDecision{decisions: got.decisions}
	if got.result != nil {
		got.result.Call = index
		v.result = got.result
		return v
	}
	if got.question != "" {
		one.Args = args
		if got.args != nil {
			one.Args = got.args
		}
		if v.result = h.invalidCall(index, c.Tool, one.Args); v.result == nil {
			v.approval = got.approvalRequest(&one, h.env.Bus.Now())
		}
	}
	return v
}

// invalidCall is the failure of a call whose arguments the tool's schema does not accept; nil where it accepts them.
// Such a call cannot run, so its approval is not requested. Where the tool is missing, the call fails when it runs.
func (h *hooks) invalidCall(index int64, tool string, args []byte) *events.ToolResult {
	catalog, err := h.stack.Catalog(&h.state.Catalog)
	if err != nil {
		return nil // the run of the call reports the error
	}
	return invalidCall(catalog, index, tool, args)
}

func invalidCall(catalog *plugin.CatalogEntry, index int64, tool string, args []byte) *events.ToolResult {
	registered, found := catalog.Find(tool)
	if !found {
		return nil
	}
	if _, err := registered.Check(args); err != nil {
		r := resultOf(index, failureOf(err))
		return &r
	}
	return nil
}

// beforeOutcome is the outcome of the hooks before a call.
type beforeOutcome struct {
	directiveOutcome
	result *events.ToolResult // the call does not run
}

// hooksBefore runs the hooks before a call. Their error fails only the call.
func (s *Snapshot) hooksBefore(ctx context.Context, stack *plugin.Stack, call plugin.Call, tool string, args []byte) beforeOutcome {
	list, err := stack.BeforeToolCall(ctx, plugin.ToolContext{Call: call, Tool: tool, Args: args, Host: call.Host})
	if err != nil {
		r := Failed(0, plugin.ClassExecution, plugin.CodeBefore, err)
		return beforeOutcome{result: &r}
	}
	done, err := s.applyDirectives(ctx, call.Effect, list)
	if err != nil {
		r := Failed(0, plugin.ClassExecution, plugin.CodeCreate, err)
		return beforeOutcome{directiveOutcome: done, result: &r}
	}
	result := done.replacement(plugin.ClassPermissionDenied)
	if result != nil {
		*result = s.env.switchable(ctx, *result)
	}
	return beforeOutcome{directiveOutcome: done, result: result}
}
