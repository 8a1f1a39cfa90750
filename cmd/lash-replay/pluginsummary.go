package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/lash-go/lash/events"
)

// pluginSummary is the part of summary about plugins, their decisions, and approvals.
func pluginSummary(ev *events.Event) string {
	switch p := ev.Payload.(type) {
	case *events.HookRan:
		return hookSummary(p)
	case *events.TurnPrepared:
		return preparedSummary(p)
	case *events.TurnCheckpointed:
		return joined("at "+string(p.At), endingSummary(p))
	case *events.PluginStateSaved:
		return joined("plugin "+quoted(p.Plugin), fmt.Sprintf("revision %d after %d", p.Revision, p.Base),
			bodySummary(p.State, p.Blob), counted(len(p.Artifacts), "artifact"))
	case *events.SessionOverlaid:
		return overlaySummary(p)
	case *events.SessionExtended:
		return joined("extension "+quoted(p.Extension.Type), bodySummary(p.Extension.Body, events.BlobRef{}))
	case *events.SessionExtensionsSet:
		return counted(len(p.Extensions), "extension") + " in place of all"
	case *events.FrameConfigured:
		frames := "of the current frame"
		if p.All {
			frames = "of every frame"
		}
		return "options " + frames + " " + shortJSON(p.Options)
	case *events.FrameStateSaved:
		return "execution state, " + bodySummary(p.State, p.Blob)
	case *events.SessionFirstInputTaken:
		return "by " + callerName(p.By)
	case *events.ToolApprovalAsked:
		return questionSummary(p, "")
	case *events.ToolApprovalGiven:
		return answerSummary(p, "", "")
	}
	return taskSummary(ev)
}

func hookSummary(p *events.HookRan) string {
	list := []string{string(p.Point)}
	if p.At != "" {
		list = append(list, "at "+string(p.At))
	}
	list = append(list, iteration(p.Iteration))
	for i := range p.Decisions {
		list = append(list, decisionSummary(&p.Decisions[i]))
	}
	if p.Failed != "" {
		list = append(list, "hook of "+quoted(p.Failed)+" failed: "+issueSummary(p.Issue))
	}
	if len(p.Decisions) == 0 && p.Failed == "" {
		list = append(list, "nothing decided")
	}
	return joined(list...)
}

// decisionSummary is one directive with its object.
func decisionSummary(d *events.Decision) string {
	words := []string{quoted(d.Plugin), string(d.Kind)}
	if d.Code != "" {
		words = append(words, quoted(d.Code))
	}
	if d.Session != "" {
		words = append(words, string(d.Session))
	}
	if d.Name != "" {
		words = append(words, quoted(d.Name))
	}
	if n := int(d.Count) + len(d.Messages); n > 0 {
		words = append(words, counted(n, "message"))
	}
	if d.Message != "" {
		words = append(words, short(d.Message))
	}
	for i := range d.Contributions {
		words = append(words, contributionSummary(&d.Contributions[i]))
	}
	if len(d.Body) > 0 {
		words = append(words, shortJSON(d.Body))
	}
	return strings.Join(words, " ")
}

func preparedSummary(p *events.TurnPrepared) string {
	var list []string
	if p.Viewed {
		list = append(list, fmt.Sprintf("shows %s in place of what is up to %s", counted(len(p.View), "piece"), leafName(p.Upto)))
	}
	if p.Kept {
		list = append(list, "contributions as before")
	}
	for i := range p.Contributions {
		list = append(list, contributionSummary(&p.Contributions[i]))
	}
	if len(list) == 0 {
		return "as it is"
	}
	return joined(list...)
}

func contributionSummary(c *events.Contribution) string {
	return "to " + string(c.Slot) + " " + short(c.Content)
}

// sourcesSummary is the tool sources of a session.
func sourcesSummary(names []string) string {
	if len(names) == 0 {
		return "no tool sources"
	}
	return "tool sources " + strings.Join(names, ", ")
}

// overlaySummary is the overlay of a session's tools.
func overlaySummary(p *events.SessionOverlaid) string {
	if p.IsZero() {
		return "nothing lies over the tools"
	}
	var list []string
	for i := range p.Tools {
		list = append(list, "tool "+quoted(p.Tools[i].Name))
	}
	for i := range p.Contributions {
		list = append(list, contributionSummary(&p.Contributions[i]))
	}
	if p.WithoutBase {
		list = append(list, "without the session's own tools")
	}
	return joined(list...)
}

func endingSummary(p *events.TurnCheckpointed) string {
	if p.At != events.AtEnd {
		return ""
	}
	return joined("will be "+string(p.Ending.End), issueSummary(p.Ending.Issue))
}

func callerName(name string) string {
	if name == "" {
		return "an unnamed caller"
	}
	return quoted(name)
}

// bodySummary is a body, or the size of a body outside of the event.
func bodySummary(data []byte, blob events.BlobRef) string {
	switch {
	case !blob.IsZero():
		return fmt.Sprintf("%d bytes in a blob", blob.Size)
	case len(data) == 0:
		return "nothing"
	}
	return shortJSON(data)
}

// shortJSON is [short], with JSON on one line.
func shortJSON(data []byte) string {
	var line bytes.Buffer
	if json.Compact(&line, data) != nil || line.Len() > shortBytes || strings.ContainsFunc(line.String(), func(r rune) bool { return !strconv.IsPrint(r) }) {
		return short(string(data))
	}
	return line.String()
}

// questionSummary is an approval request. The model's id of the call may be known.
func questionSummary(p *events.ToolApprovalAsked, id events.CallID) string {
	return joined(callNames(p.Effect, id), "tool "+quoted(p.Tool), bodySummary(p.Args, p.Blob), quoted(p.Plugin)+" asks "+short(p.Question))
}

// answerSummary is an answer to an approval request. The tool may be unknown.
func answerSummary(p *events.ToolApprovalGiven, id events.CallID, tool string) string {
	answer := "refused"
	if p.Granted {
		answer = "granted"
	}
	if tool != "" {
		tool = "tool " + quoted(tool)
	}
	return joined(callNames(p.Effect, id), tool, answer+" by "+callerName(p.By), short(p.Reason))
}

func callNames(call events.EffectID, id events.CallID) string {
	if id == "" {
		return "call " + string(call)
	}
	return "call " + string(call) + " [" + string(id) + "]"
}
