package call

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/llm"
)

// stream is the output of one attempt, on its way from the provider to the
// watchers of the session. Plugins transform its text; they or the protocol may
// end it. It is used from one goroutine.
type stream struct {
	ctx         context.Context //nolint:containedctx // of the one attempt
	cut         context.CancelFunc
	stack       *plugin.Stack
	preamble    plugin.Preamble
	deltas      *deltas
	text        strings.Builder // after the plugins
	parts       streamedParts   // after the plugins
	streamed    bool
	aborted     bool
	cancelTimer *time.Timer // cancels the provider after a plugin ended the reply
	err         error
	emitted     []events.Decision // what hooks emit with the reply
	bytes       int               // approximate size of emitted
}

func (s *stream) add(d llm.Delta) {
	switch {
	case s.aborted || s.err != nil:
	case d.Kind != events.PartText:
		s.publish(d)
	default:
		s.streamed = true
		s.transform(d.Text)
	}
}

// publish publishes a delta, and keeps it for the case that the reply is cut off.
func (s *stream) publish(d llm.Delta) {
	if d.Text == "" {
		return
	}
	s.deltas.add(d)
	s.parts.add(d.Kind, strings.ToValidUTF8(d.Text, "\uFFFD"))
}

// transform lets the plugins transform a delta of text, and publishes it.
func (s *stream) transform(chunk string) {
	t := plugin.StreamTransform{Chunk: chunk}
	if s.stack.HasStream() {
		var emitted []plugin.Owned[[]byte]
		if t, emitted, s.err = s.stack.TransformStream(s.ctx, chunk); s.err != nil {
			s.cut()
			return
		}
		if s.err = s.emit(emitted); s.err != nil {
			s.cut()
			return
		}
	}
	for _, r := range t.Reasoning {
		s.publish(llm.Delta{Kind: events.PartReasoning, Text: r})
	}
	s.text.WriteString(t.Chunk)
	s.publish(llm.Delta{Kind: events.PartText, Text: t.Chunk})
	if t.Abort || s.preamble.Complete != nil && s.preamble.Complete(s.text.String()) {
		s.aborted = true
		s.cancelTimer = time.AfterFunc(usageGrace, s.cut)
	}
}

// usageGrace is how long the provider may continue after a plugin or the protocol has ended the reply, because a
// provider sends its token usage last.
const usageGrace = 2 * time.Second

// close is the attempt's reply: the provider's own, with the text after the
// plugins; or what came before the stream was ended.
func (s *stream) close(resp llm.Response, err error) (llm.Response, error) {
	if err == nil && !s.streamed && s.stack.HasStream() {
		s.transform(textOf(resp.Parts))
	}
	if s.cancelTimer != nil {
		s.cancelTimer.Stop()
	}
	switch {
	case s.err != nil:
		return resp, &llm.Error{Kind: llm.KindRequest, Code: "plugin_assistant_stream", Message: clip(s.err.Error())}
	case s.aborted && err != nil:
		resp = llm.Response{Usage: resp.Usage, Model: resp.Model}
		fallthrough
	case s.aborted:
		resp.Stop, resp.Parts = events.StopEnd, []events.Part{{Kind: events.PartText, Text: s.text.String()}}
		return resp, nil
	case err == nil && s.stack.HasStream():
		resp.Parts = withText(resp.Parts, s.text.String())
	}
	return resp, err
}

// withText puts one text in the place of the first of the parts' texts.
func withText(parts []events.Part, text string) []events.Part {
	var list []events.Part
	for _, p := range parts {
		if p.Kind != events.PartText {
			list = append(list, p)
			continue
		}
		if text != "" {
			list, text = append(list, events.Part{Kind: events.PartText, Text: text}), ""
		}
	}
	if text != "" {
		list = slices.Insert(list, 0, events.Part{Kind: events.PartText, Text: text})
	}
	return list
}

// decisionBytes is roughly what a decision takes in a record, without its body.
const decisionBytes = 64

// emit publishes the JSON that hooks emit, and adds it to the record. It returns an error above the limit of one record.
func (s *stream) emit(list []plugin.Owned[[]byte]) error {
	for _, e := range list {
		body, _ := json.Marshal([]json.RawMessage{e.Value})
		if s.bytes += len(body) + len(e.Plugin) + decisionBytes; s.bytes > maxHookBytes {
			return fmt.Errorf("plugins show more than %d bytes with one reply: %w", maxHookBytes, events.ErrTooLarge)
		}
		s.emitted = append(s.emitted, events.Decision{Plugin: e.Plugin, Kind: events.DirectiveEmitEvents, Body: body})
		s.deltas.event(api.PluginEvent{Plugin: e.Plugin, Data: body[1 : len(body)-1]}) // as it is recorded
	}
	return nil
}

// event records what hooks emitted with the reply; nil where they emitted nothing.
func (s *stream) event(needs turn.Needs) events.Payload {
	if s == nil || len(s.emitted) == 0 {
		return nil
	}
	return &events.HookRan{Point: events.PointReply, Iteration: needs.Iteration, Decisions: s.emitted}
}
