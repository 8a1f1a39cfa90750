package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// The first words of the turns that a [newDelegate] answers. "agents 2 2" starts two agents with the task "agents 2", each of which starts
// two with the task "agents", which answer. "deadly" kills the process that asks the model.
const (
	agentsWord = "agents"
	deadlyWord = "deadly"
)

// agentsTask makes agentsOfTask agents.
const (
	agentsTask   = agentsWord + " 2 2"
	agentsOfTask = 2 + 2*2
)

// instead is a model that has another one for some requests.
type instead struct {
	llm.Provider
	scripted *scripted.Provider
	of       func(llm.Request) bool
}

// Complete implements [llm.Provider].
func (m *instead) Complete(ctx context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	if m.of(req) {
		return m.scripted.Complete(ctx, req, sink)
	}
	return m.Provider.Complete(ctx, req, sink)
}

// done is the last reply of a turn.
func done() scripted.Answer {
	return scripted.Answer{Response: llm.Response{Stop: events.StopEnd, Parts: []events.Part{{Kind: events.PartText, Text: "done"}}}}
}

// newDelegate makes the model of the turns that start agents or kill their node, in a process that may die once it works; the other turns
// have the next one.
func newDelegate(next llm.Provider, think time.Duration, works <-chan struct{}) llm.Provider {
	return &instead{next, scripted.New(func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		delay.Sleep(ctx, think)
		if taskOf(req)[0] == deadlyWord {
			<-works
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
			<-ctx.Done()
		}
		return answerTask(req), ctx.Err()
	}), func(req llm.Request) bool { return slices.Contains([]string{agentsWord, deadlyWord}, taskOf(req)[0]) }}
}

// taskOf is the words of the last input of a conversation.
func taskOf(req llm.Request) []string {
	for i := range slices.Backward(req.Messages) {
		if m := &req.Messages[i]; m.Role == events.RoleUser && len(m.Parts) > 0 && m.Parts[0].Kind == events.PartText {
			return append(strings.Fields(m.Text()), "")
		}
	}
	return []string{""}
}

func answerTask(req llm.Request) scripted.Answer {
	words, n := taskOf(req), 0
	_, _ = fmt.Sscan(words[1], &n) // none: the agent answers
	last := req.Messages[len(req.Messages)-1].Parts
	if n == 0 || last[0].Kind == events.PartToolResult {
		return done()
	}
	task := strings.TrimSpace(agentsWord + " " + strings.Join(words[2:], " "))
	var calls []events.Part
	for i := range n {
		calls = append(calls, events.Part{
			Kind: events.PartToolCall, Call: events.CallID(fmt.Sprint("k", i)), Tool: "spawn_agent", Args: fmt.Appendf(nil, `{"capability":"peer","task":%q}`, task),
		})
	}
	return scripted.Answer{Response: llm.Response{Stop: events.StopToolUse, Parts: calls}}
}

// revive starts a node again that has died without a fault, until ctx ends: a turn killed it.
func (t *injector) revive(ctx context.Context) {
	for delay.Sleep(ctx, 20*time.Millisecond) {
		for _, m := range t.f.nodes {
			d := draw{fault: FaultKill, group: groupNodes, name: m.name, member: m}
			if !t.reserve(d) {
				continue
			}
			var err error
			if i := (incident{Fault: FaultKill, Target: m.name, Worker: m.id, At: time.Now()}); m.hasEnded() {
				err = t.f.startMember(context.WithoutCancel(ctx), m)
				i.Until = time.Now()
				t.f.incident.add(i)
			}
			t.release(d, err)
		}
	}
}

// auditAgents reads the histories of these sessions and of their agents. Each turn has as many agents as its task says, each of which was asked
// once and has answered once; a turn that kills its nodes is given up.
func (l *load) auditAgents(ctx context.Context, b *bus.Bus, r *Report) error {
	for _, s := range l.agents {
		deadly := s.id == deadlyWord
		agents, broken, err := l.auditTree(ctx, b, s.id, deadly)
		if err != nil {
			return err
		}
		if want := s.asked * agentsOfTask; !deadly && agents != want {
			broken = append(broken, fmt.Errorf("%d turns have %d agents, want %d", s.asked, agents, want))
		}
		if r.Agents += agents; deadly {
			r.GivenUp += s.asked
		}
		r.add(s.id, &findings{lost: errors.Join(append(broken, s.err)...)})
	}
	return nil
}

// auditTree verifies a session and its agents, and counts the agents.
func (l *load) auditTree(ctx context.Context, b *bus.Bus, id events.SessionID, deadly bool) (agents int, broken []error, err error) {
	answers, asked := 0, 0
	var wrong []error
	_, broken, err = readHistory(ctx, b, id, func(_ events.Seq, _ *events.Commit, e *events.Event) {
		switch p := e.Payload.(type) {
		case *events.TurnRequested:
			asked++
		case *events.TurnCompleted:
			asked--
			if given := p.End == events.EndFailed && strings.HasPrefix(p.Issue.Message, "given up"); given != deadly || !deadly && p.End != events.EndFinished {
				wrong = append(wrong, fmt.Errorf("%s: turn %s ended as %s %s", id, e.Turn, p.End, p.Issue.Message))
			}
		case *events.ToolReturned:
			for j := range p.Results {
				if answers++; !strings.Contains(p.Results[j].Text, `"answer":"done"`) {
					wrong = append(wrong, fmt.Errorf("%s: call %d has the result %s", id, p.Results[j].Call, p.Results[j].Text))
				}
			}
		}
	})
	if err != nil {
		return 0, nil, err
	}
	broken = append(broken, wrong...)
	tasks, err := l.host.Tasks(ctx, id)
	if err != nil {
		return 0, nil, fmt.Errorf("tasks of session %s: %w", id, err)
	}
	if asked != 0 || answers != len(tasks) {
		broken = append(broken, fmt.Errorf("%s: %d turns have no end; %d agents have %d answers", id, asked, len(tasks), answers))
	}
	for i := range tasks {
		below, faults, err := l.auditTree(ctx, b, tasks[i].Child, false)
		if err != nil {
			return 0, nil, err
		}
		agents, broken = agents+1+below, append(broken, faults...)
	}
	return agents, broken, nil
}
