package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/cmd/internal/program"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/transcript"
	"github.com/lash-go/lash/session/turn"
)

// turnView writes a turn.
type turnView struct {
	*oneTurn
	e     *env
	p     *transcript.Printer
	full  bool
	shown map[events.MessageID]bool // messages of earlier prompts
}

func (c *turnCmd) render(ctx context.Context, e *env, src source, t *oneTurn) error {
	v := &turnView{oneTurn: t, e: e, full: c.Full, shown: t.before}
	v.p = transcript.NewPrinter(e.Out, transcript.Options{
		Color: e.color, Full: c.Full, Lines: resultLines, More: "--full shows all",
		Blob: func(ref events.BlobRef) ([]byte, error) { return src.Blob(ctx, ref) },
	})
	v.heading(joined(fmt.Sprintf("turn %s of session %s", t.id, t.state.Session), prefixed("requested by ", v.by[v.id])))
	for i := range t.events {
		v.event(&t.events[i])
	}
	record, err := t.state.Record(t.id)
	if err != nil {
		return err
	}
	switch {
	case record != nil:
		v.heading("end of turn " + joined(transcript.EndLine(record), v.cost()))
	case t.state.Turn() != nil && t.state.Turn().ID == t.id:
		v.heading("the turn runs")
		printWaits(e, t.state.Turn())
	case slices.ContainsFunc(t.events, func(ev turnEvent) bool { return ev.event().Redacted != nil }):
		v.heading("the turn's state is not known: payloads are redacted")
	default:
		v.heading("the turn waits for its start")
	}
	return v.p.Err()
}

// cost is what the turn cost, where prices are known.
func (v *turnView) cost() string {
	sum := micros{Known: v.prices.known()}
	for i := range v.events {
		if p, ok := v.events[i].event().Payload.(*events.ModelReplied); ok {
			c := v.prices.of(p.Provider, p.Model, p.Cost())
			sum.N, sum.Known = sum.N+c.N, sum.Known && c.Known
		}
	}
	return sum.String()
}

func (v *turnView) heading(text string) {
	v.e.painted("1", "--- "+transcript.VisibleLine(text)+" ---")
	v.e.printf("\n")
}

// label writes the head of an event: its place, its time, and a text.
func (v *turnView) label(ev *turnEvent, color, text string) {
	v.e.printf("%-7s %s  ", fmt.Sprintf("%d.%d", ev.entry.Seq, ev.pos), clock(ev.entry.Commit.At))
	v.e.painted(color, transcript.VisibleLine(text))
	v.e.printf("\n")
}

func (v *turnView) event(ev *turnEvent) {
	switch p := ev.event().Payload.(type) {
	case *events.TurnRequested:
		v.label(ev, "36", joined("requested by "+ev.entry.Commit.Actor.String(), requestSummary(p)))
		v.p.Parts(p.Input.Parts)
	case *events.ModelReplied:
		v.modelCall(ev, p.Iteration, joined(modelName(p.Provider, p.Model), duration(p.Millis), tries(p.Attempts), usageSummary(p.Cost()), v.prices.of(p.Provider, p.Model, p.Cost()).String()))
		v.e.painted("32", joined("reply, stop "+string(p.Stop), short(p.Detail), prefixed("fault ", p.Fault), foreignSummary(p.Foreign)))
		v.e.printf("\n")
		v.p.Parts(p.Parts)
		v.shown[cmp.Or(p.Message, projector.ReplyMessage(v.id, p.Iteration))] = true
	case *events.ModelInterrupted:
		v.modelCall(ev, p.Iteration, joined("cut off", modelName(p.Provider, p.Model), duration(p.Millis), usageSummary(p.Usage)))
		v.e.printf("partial reply, which later turns do not read\n")
		v.p.Parts(p.Parts)
	case *events.ModelFailed:
		v.modelCall(ev, p.Iteration, joined("failed: "+p.Error, quotedWord(p.Code), short(p.Message), fallbackSummary(p.Fallback)))
	case *events.ToolReturned:
		v.shown[cmp.Or(p.Message, projector.ResultMessage(v.id, p.Iteration))] = true
		for i := range p.Results {
			v.result(ev, turn.ToolEffect(v.id, p.Iteration, p.Results[i].Call), &p.Results[i])
		}
	case *events.HookRan:
		v.label(ev, "35", "hooks "+summary(ev.event()))
	default:
		v.label(ev, "33", strings.TrimSpace(string(ev.event().Kind)+"  "+summary(ev.event())))
	}
}

// modelCall writes the head of a model call, and its prompt.
func (v *turnView) modelCall(ev *turnEvent, iteration int64, text string) {
	v.label(ev, "32", joined(fmt.Sprintf("model call %d", iteration), text))
	call := v.calls[place{ev.entry.Seq, ev.pos}]
	switch {
	case call == nil:
		return
	case call.err != nil:
		v.e.println("prompt: it cannot be rebuilt:", call.err)
		return
	}
	p, match := &call.prompt, "as it was recorded"
	if !call.match {
		match = "NOT as it was recorded: lash-replay verify says more"
	}
	v.e.printf("prompt %.12s, %s: %s, %s\n", p.Ref.Digest, match, program.Number(int64(len(p.Messages)), "message"), program.Number(int64(len(p.Tools)), "tool"))
	v.settings(call)
	left := 0
	for i := range p.Messages {
		m := &p.Messages[i]
		if v.shown[m.ID] && !v.full {
			left++
			continue
		}
		if left > 0 {
			v.e.printf("    [%s as shown before, --full shows all]\n", program.Number(int64(left), "message"))
			left = 0
		}
		v.shown[m.ID] = true
		v.p.Message(m)
	}
	if left > 0 {
		v.e.printf("    [%s as shown before, --full shows all]\n", program.Number(int64(left), "message"))
	}
}

// settings writes the system text, the configuration and the tools of a prompt. Without --full the first one shows the
// texts.
func (v *turnView) settings(call *modelCall) {
	p := &call.prompt
	if config := configSummary(p.Config); config != "" {
		v.e.println("   ", config)
	}
	if p.System != "" && (v.full || !v.shown[systemShown]) {
		v.e.println("system text")
		v.p.Text(p.System, events.BlobRef{})
	} else if p.System != "" {
		v.e.printf("    [system text of %d bytes, --full shows it]\n", len(p.System))
	}
	v.shown[systemShown] = true
	if len(p.Tools) == 0 {
		return
	}
	if !v.full {
		names := make([]string, len(p.Tools))
		for i := range p.Tools {
			names[i] = quoted(p.Tools[i].Name)
		}
		v.e.println("    tools:", strings.Join(names, " "))
		return
	}
	for i := range p.Tools {
		t := &p.Tools[i]
		v.e.println("tool", quoted(t.Name))
		v.p.Text(joinedLines(t.Description, string(t.Look().Schema)), events.BlobRef{})
	}
}

// systemShown is no id of a message: it marks that the system text was shown.
const systemShown events.MessageID = ""

// joinedLines joins the texts that are not empty.
func joinedLines(list ...string) string {
	var out []string
	for _, s := range list {
		if s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, "\n")
}

// result writes a tool call with its arguments and its result.
func (v *turnView) result(ev *turnEvent, effect events.EffectID, r *events.ToolResult) {
	color := "32"
	if r.Outcome != events.OutcomeSuccess {
		color = "31"
	}
	v.label(ev, color, joined("tool "+quoted(v.tools[effect])+", "+callNames(effect, v.names[effect]), "effects "+v.effectsOf(effect),
		outcomeName(r.Outcome), quotedWord(r.Class), quotedWord(r.Code), duration(r.Millis), tries(r.Attempts)))
	if args, ref := v.arguments(effect); len(args) > 0 || !ref.IsZero() {
		v.e.println("  arguments")
		v.p.Text(indented(args), ref)
	}
	v.e.println("  result")
	v.p.Text(r.Text, r.Blob)
	v.p.Parts(r.Attachments)
	if len(r.Unseen) > 0 {
		v.e.println("  attachments that the model does not see")
		v.p.Parts(r.Unseen)
	}
}

// arguments are those of a call of this turn, as the model wrote them.
func (v *turnView) arguments(effect events.EffectID) ([]byte, events.BlobRef) {
	for i := range v.events {
		p, ok := v.events[i].event().Payload.(*events.ModelReplied)
		if !ok {
			continue
		}
		for index, c := range turn.ToolCalls(p.Parts) {
			if turn.ToolEffect(v.id, p.Iteration, index) == effect {
				return c.Args, c.Blob
			}
		}
	}
	return nil, events.BlobRef{}
}

// indented is JSON on several lines. Other text stays.
func indented(data []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, data, "", "  ") != nil {
		return string(data)
	}
	return out.String()
}
