package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/transcript"
)

// summary is a short description of an event.
func summary(ev *events.Event) string {
	if ev.Redacted != nil {
		return fmt.Sprintf("redacted, digest %x", ev.Redacted[:6])
	}
	if id := ev.Locked(); id != 0 {
		return connect.Advised(&events.KeyError{ID: id}).Error()
	}
	switch p := ev.Payload.(type) {
	case nil:
		return fmt.Sprintf("unknown kind, version %d, %s", ev.V, program.Number(int64(len(ev.Raw)), "byte"))
	case *events.SessionOpened:
		return openedSummary(p)
	case *events.SessionConfigured:
		return joined(configSummary(p.Config), announcedSummary(p.Announced))
	case *events.SessionTold:
		return fmt.Sprintf("plugins were notified of the configuration of %d by %s", p.Of, p.Worker)
	case *events.SessionGranted:
		return joined(grantSummary(p.To, p.Rights), prefixed("by ", p.By))
	case *events.SessionLossAccepted:
		return joined(fmt.Sprintf("commits %d to %d were lost with their stream", p.After+1, p.UpTo), "accepted by "+p.By, short(p.Reason))
	case *events.BodyStored:
		return joined(fmt.Sprintf("%d bytes, digest %.12s", p.Blob.Size, p.Blob.Digest), prefixed("by ", p.By))
	case *events.SessionClosed:
		return short(p.Reason)
	case *events.GraphAppended:
		return nodesSummary(p.Nodes)
	case *events.GraphBranched:
		return "leaf " + leafName(p.Leaf)
	case *events.FrameOpened:
		return joined("frame "+quoted(string(p.Frame)), quoted(p.Reason), nodesSummary(p.Nodes))
	case *events.TurnRequested:
		return joined(requestSummary(p), partsSummary(p.Input.Parts))
	case *events.TurnScheduled:
		return joined("at "+clock(p.At), string(p.Busy), partsSummary(p.Input.Parts))
	case *events.TurnReleased:
		return "released by " + string(p.Worker)
	case *events.TurnAnnounced:
		return "plugins are to be notified by " + string(p.Worker)
	case *events.TurnTold:
		return "plugins were notified by " + string(p.Worker)
	case *events.TurnDiverted:
		return joined(fmt.Sprintf("%s by turn %s", p.End, p.By), prefixed("goes on in session ", string(p.Session)), prefixed("at ", string(p.At)))
	case *events.TurnStarted:
		return fmt.Sprintf("attempt %d by %s", p.Attempt, p.Worker)
	case *events.TurnCancelRequested:
		return joined("request "+quoted(p.Request), prefixed("origin ", p.Origin), short(p.Reason))
	case *events.TurnCompleted:
		return joined(string(p.End), issueSummary(p.Issue))
	}
	return workSummary(ev)
}

func announcedSummary(announced bool) string {
	if announced {
		return "plugins are to be notified"
	}
	return ""
}

// workSummary is the part of summary about models, tools and inputs.
func workSummary(ev *events.Event) string {
	switch p := ev.Payload.(type) {
	case *events.ModelReplied:
		return joined(iteration(p.Iteration), "stop "+string(p.Stop), prefixed("model ", p.Model), usageSummary(p.Cost()), roomSummary(p.Prompt), partsSummary(p.Parts), foreignSummary(p.Foreign))
	case *events.ModelInterrupted:
		return joined(iteration(p.Iteration), "cut off", prefixed("model ", p.Model), usageSummary(p.Usage), partsSummary(p.Parts))
	case *events.ModelFailed:
		return joined(iteration(p.Iteration), prefixed("model ", p.Model), p.Error, quoted(p.Code), short(p.Message), fallbackSummary(p.Fallback))
	case *events.ToolStateApplied:
		return fmt.Sprintf("generation %d, %d tools", p.Generation, len(p.Tools))
	case *events.ToolSourcesApplied:
		return sourcesSummary(p.Sources)
	case *events.ToolCalled:
		return joined(iteration(p.Iteration), "calls "+positions(p.Calls))
	case *events.ToolReturned:
		return joined(iteration(p.Iteration), resultsSummary(p.Results))
	case *events.ToolLost:
		return joined(iteration(p.Iteration), "calls "+positions(p.Calls))
	case *events.InputInjected:
		return joined("input "+string(p.Input), string(p.Role), partsSummary(p.Parts))
	case *events.InputAccepted:
		return fmt.Sprintf("at %s: %s", p.At, inputNames(p.Inputs))
	case *events.InputCancelled:
		return inputNames(p.Inputs)
	}
	return pluginSummary(ev)
}

// roomSummary says that a prompt was not sent whole.
func roomSummary(p events.PromptRef) string {
	if p.Room == 0 {
		return ""
	}
	return fmt.Sprintf("prompt pruned to %d tokens", p.Room)
}

// foreignSummary says what a prompt lost where the endpoint or the model was changed.
func foreignSummary(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("asked without the signatures of %d parts, which another model or endpoint made", n)
}

func openedSummary(p *events.SessionOpened) string {
	list := []string{configSummary(p.Config), string(p.Relation), prefixed("parent ", string(p.Parent)), prefixed("owner ", p.Owner)}
	if !p.Subagent.IsZero() {
		list = append(list, fmt.Sprintf("subagent %s at depth %d of %d", quoted(p.Subagent.Capability), p.Subagent.Depth, p.Subagent.MaxDepth))
	}
	if !p.First.IsZero() {
		list = append(list, "first turn "+partsSummary(p.First.Parts))
	}
	if len(p.Access.Tools) > 0 {
		list = append(list, "only tools "+strings.Join(p.Access.Tools, " "))
	}
	if len(p.Access.Hidden) > 0 {
		list = append(list, "without tools "+strings.Join(p.Access.Hidden, " "))
	}
	if !p.Forked.IsZero() {
		list = append(list, fmt.Sprintf("forked from %s at %d", p.Forked.Session, p.Forked.Seq))
	}
	if p.Commits > 0 {
		list = append(list, fmt.Sprintf("%d more commits of nodes follow", p.Commits))
	}
	return joined(list...)
}

// grantSummary lists the rights of a caller.
func grantSummary(to string, rights []events.SessionRight) string {
	if len(rights) == 0 {
		return to + " may nothing any more"
	}
	words := make([]string, len(rights))
	for i, r := range rights {
		words[i] = string(r)
	}
	return to + " may " + strings.Join(words, " ")
}

func requestSummary(p *events.TurnRequested) string {
	if p.Behind == "" {
		return ""
	}
	return fmt.Sprintf("%s, behind turn %s", p.Busy, p.Behind)
}

// clock is a time of an event, as UTC.
func clock(at events.Millis) string { return at.Time().UTC().Format("2006-01-02T15:04:05.000Z") }

func configSummary(c events.Config) string {
	return joined(prefixed("provider ", c.Provider), prefixed("model ", c.Model), prefixed("effort ", c.Effort), prefixed("protocol ", c.Protocol), fallbacksSummary(c.Fallbacks))
}

func fallbacksSummary(list []events.Fallback) string {
	names := make([]string, len(list))
	for i, f := range list {
		names[i] = modelName(f.Provider, f.Model)
	}
	return prefixed("fallbacks ", strings.Join(names, ", "))
}

func fallbackSummary(f events.FallbackTo) string {
	if f.IsZero() {
		return ""
	}
	return fmt.Sprintf("goes on with fallback %d: %s", f.Place, modelName(f.Provider, f.Model))
}

// modelName is a model, with its provider where it is known.
func modelName(provider, model string) string {
	if provider == "" {
		return model
	}
	return model + " of " + provider
}

func issueSummary(i events.Issue) string {
	return strings.TrimSpace(quoted(i.Code) + " " + short(i.Message))
}

func usageSummary(u events.Usage) string {
	if u.IsZero() {
		return ""
	}
	return transcript.UsageLine(u)
}

func iteration(n int64) string { return "iteration " + strconv.FormatInt(n, 10) }

func leafName(id events.NodeID) string {
	if id == "" {
		return "before the first node"
	}
	return quoted(string(id))
}

func nodesSummary(nodes []events.NewNode) string {
	if len(nodes) == 0 {
		return ""
	}
	ids := make([]string, 0, 4)
	for i := range nodes {
		if i == 3 {
			ids = append(ids, fmt.Sprintf("and %d more", len(nodes)-3))
			break
		}
		ids = append(ids, quoted(string(nodes[i].ID)))
	}
	return "nodes " + strings.Join(ids, " ")
}

func partsSummary(parts []events.Part) string {
	var list []string
	for i := range parts {
		p := &parts[i]
		switch {
		case p.Kind == events.PartToolCall:
			list = append(list, "calls "+quoted(p.Tool))
		case !p.Blob.IsZero():
			list = append(list, fmt.Sprintf("%s of %d bytes in a blob", p.Kind, p.Blob.Size))
		case p.Kind == events.PartText:
			list = append(list, short(p.Text))
		default:
			list = append(list, string(p.Kind))
		}
	}
	return strings.Join(list, ", ")
}

func resultsSummary(results []events.ToolResult) string {
	list := make([]string, len(results))
	for i := range results {
		list[i] = fmt.Sprintf("call %d %s", results[i].Call, resultSummary(&results[i]))
	}
	return strings.Join(list, ", ")
}

func resultSummary(r *events.ToolResult) string {
	text := string(r.Outcome)
	if r.Outcome == events.OutcomeSuccess {
		text = "success"
	}
	if r.Code != "" {
		text += " " + quoted(r.Code)
	}
	if !r.Blob.IsZero() {
		text += fmt.Sprintf(" (%d bytes in a blob)", r.Blob.Size)
	}
	return text
}

func positions(calls []int64) string {
	list := make([]string, len(calls))
	for i, c := range calls {
		list[i] = strconv.FormatInt(c, 10)
	}
	return strings.Join(list, " ")
}

func inputNames(ids []events.InputID) string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = string(id)
	}
	return strings.Join(list, " ")
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + quoted(s)
}

// joined joins the non-empty texts with commas.
func joined(list ...string) string {
	var out []string
	for _, s := range list {
		if s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, ", ")
}

// quoted quotes a text unless it is a plain word, so that the output stays on one line.
func quoted(s string) string {
	for _, r := range s {
		if r <= ' ' || r == '"' || !strconv.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}

// shortBytes is the length of quotes in a summary.
const shortBytes = 60

// short quotes the beginning of a text, and the number of omitted bytes.
func short(s string) string {
	if s == "" {
		return ""
	}
	if len(s) <= shortBytes {
		return strconv.Quote(s)
	}
	head := events.Clip(s, shortBytes, "")
	return fmt.Sprintf("%s [%d more bytes]", strconv.Quote(head), len(s)-len(head))
}

// counted is a number with its noun; "" for 0.
func counted(n int, what string) string {
	if n == 0 {
		return ""
	}
	return program.Number(int64(n), what)
}
