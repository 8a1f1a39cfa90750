package main

import (
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/session/transcript"
)

// taskSummary is the part of summary about background tasks.
func taskSummary(ev *events.Event) string {
	switch p := ev.Payload.(type) {
	case *events.TaskRegistered:
		return registeredSummary(p)
	case *events.TaskStarted:
		return joined("task "+string(p.Task), fmt.Sprintf("attempt %d by %s", p.Attempt, p.Worker))
	case *events.TaskStateChanged:
		return joined("task "+string(p.Task), string(p.State))
	case *events.TaskProgressed:
		return joined("task "+string(p.Task), short(p.Message))
	case *events.TaskCancelRequested:
		return joined("task "+string(p.Task), short(p.Reason))
	case *events.TaskEnded:
		return joined("task "+string(p.Task), string(p.State), short(p.Summary))
	case *events.TaskHidden:
		return joined("task "+string(p.Task), short(p.Label))
	case *events.TaskPassedOn:
		return joined("task "+string(p.Task), "its session knows of the cancel")
	case *events.TaskRemoved:
		return "task " + string(p.Task)
	case *events.TaskTransferred:
		return movedSummary(p.Tasks, p.To)
	case *events.TaskLeaving:
		return movedSummary(p.Tasks, p.To)
	case *events.TaskStayed:
		return joined("task "+string(p.Task), "the session that it was to go to does not take it")
	}
	return monitorSummary(ev)
}

func movedSummary(tasks []events.TaskID, to events.SessionID) string {
	names := make([]string, len(tasks))
	for i, id := range tasks {
		names[i] = string(id)
	}
	return "to " + string(to) + ": " + strings.Join(names, " ")
}

func registeredSummary(p *events.TaskRegistered) string {
	return joined("task "+string(p.Task), taskKind(p.Of), taskState(p.State), prefixed("runner ", p.Runner),
		prefixed("by ", p.Producer), prefixed("does it in ", string(p.Child)), prefixed("part of ", string(p.Parent)),
		prefixed("from ", string(p.From)), short(p.Summary))
}

func taskKind(k events.TaskKind) string {
	if k == events.TaskOther {
		return ""
	}
	return string(k)
}

func taskState(s events.TaskState) string {
	if s == events.TaskPending {
		return "pending"
	}
	return string(s)
}

// monitorSummary is the part of summary about monitors, direct model calls, usage and calls within calls.
func monitorSummary(ev *events.Event) string {
	switch p := ev.Payload.(type) {
	case *events.MonitorRegistered:
		return joined("monitor "+string(p.Spec.ID), short(p.Spec.Command))
	case *events.MonitorArmed:
		return "monitor " + string(p.Monitor)
	case *events.MonitorStarted:
		return joined("monitor "+string(p.Monitor), fmt.Sprintf("attempt %d by %s", p.Attempt, p.Worker))
	case *events.MonitorReported:
		return joined("monitor "+string(p.Monitor), linesSummary(p.Lines))
	case *events.MonitorEnded:
		return joined("monitor "+string(p.Monitor), monitorState(p.State), fmt.Sprintf("status %d", p.Exit), short(p.Error))
	case *events.MonitorUpdatesTaken:
		return fmt.Sprintf("up to %d", p.Upto)
	case *events.AuditHeadSigned:
		return headSummary(p)
	case *events.ModelCompleted:
		return joined("for "+quoted(p.Source), "stop "+string(p.Stop), prefixed("model ", p.Model), usageSummary(p.Usage), partsSummary(p.Parts))
	case *events.UsageCharged:
		return chargeSummary(p)
	}
	return callSummary(ev)
}

// callSummary is the part of summary about pending and nested calls.
func callSummary(ev *events.Event) string {
	switch p := ev.Payload.(type) {
	case *events.ToolPended:
		return joined(iteration(p.Iteration), "calls "+positions(p.Calls)+" wait for outside results")
	case *events.ToolResolved:
		return joined("call "+string(p.Effect), resultSummary(&p.Result), "by "+callerName(p.By))
	case *events.ToolResultScheduled:
		return joined("call "+string(p.Effect), "at "+clock(p.At), resultSummary(&p.Result), "by "+callerName(p.By))
	case *events.ToolNestedCalled:
		return joined("call "+string(p.Effect), "tool "+quoted(p.Tool))
	case *events.ToolNestedReturned:
		return joined("call "+string(p.Effect), "tool "+quoted(p.Tool), bodySummary(p.Args, p.Blob), resultSummary(&p.Result))
	}
	return short(eventjson.Value{V: ev.Payload}.String()) // a kind that this program does not know
}

func linesSummary(lines []events.MonitorLine) string {
	list := make([]string, 0, 4)
	for i := range lines {
		if i == 3 {
			list = append(list, fmt.Sprintf("and %d more", len(lines)-3))
			break
		}
		l := &lines[i]
		text := fmt.Sprintf("%d %s", l.Sequence, short(l.Text))
		if l.Stderr {
			text += " (standard error)"
		}
		if l.Wake != "" {
			text += " became input " + string(l.Wake)
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

func monitorState(s events.MonitorState) string {
	if s == events.MonitorIdle {
		return "idle"
	}
	return string(s)
}

func chargeSummary(p *events.UsageCharged) string {
	list := []string{fmt.Sprintf("child %s at %d", p.Child, p.At), "for " + quoted(p.Source)}
	for i := range p.Entries {
		list = append(list, "model "+quoted(p.Entries[i].Model)+" "+transcript.UsageLine(p.Entries[i].Usage))
	}
	return joined(list...)
}
