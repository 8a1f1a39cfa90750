package main

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/localfile"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/playback"
	"github.com/lash-go/lash/workers/recording"
)

// chats are the recorded conversations of a run, and what their tools declare. Every process reads the same.
type chats struct {
	convs   []recording.Conversation
	once    map[string]bool // tools that must not run twice
	outside []string        // tools that an external plugin may have, sorted
}

// readChats reads recorded conversations.
func readChats(files []string) (*chats, error) {
	all := &chats{}
	for _, name := range files {
		f, err := localfile.Open(name)
		if err != nil {
			return nil, fmt.Errorf("--chats: %w", err)
		}
		convs, err := recording.Read(name, f)
		_ = f.Close()
		if err != nil {
			return nil, err
		}
		all.convs = append(all.convs, convs...)
	}
	all.declare()
	return all, nil
}

// declare decides which tools must not run twice, and which an external plugin may have. A conversation with a call that
// does more than return needs each call, so its tools may run twice. A tool of a plugin returns text.
func (c *chats) declare() {
	needed, text := make(map[string]bool), make(map[string]bool)
	for i := range c.convs {
		plan, special := playback.NewPlan("", &c.convs[i]), false
		for _, tool := range plan.Tools {
			if _, known := text[tool]; !known {
				text[tool] = events.CheckToken("tool", tool) == nil
			}
		}
		eachCall(plan, func(_ events.EffectID, tool string, call *playback.Call) {
			special = special || call.Hang || call.Result == nil || len(call.Inject) > 0
			if r := call.Result; !call.Hang && (r == nil || r.Failed || len(r.Attachments) > 0 || len(r.Text) > wire.MaxInlineBytes) {
				text[tool] = false
			}
		})
		for _, tool := range plan.Tools {
			needed[tool] = needed[tool] || special
		}
	}
	c.once = make(map[string]bool)
	for tool, alone := range text {
		c.once[tool] = hash(tool)%3 == 0 && !needed[tool]
		if alone {
			c.outside = append(c.outside, tool)
		}
	}
	slices.Sort(c.outside)
	c.outside = c.outside[:min(len(c.outside), wire.MaxTools)]
	if !slices.ContainsFunc(c.outside, func(tool string) bool { return c.once[tool] }) {
		c.declareOnce(needed)
	}
}

// declareOnce declares one of the plugin's tools as one that must not run twice, where there is one that is not needed.
func (c *chats) declareOnce(needed map[string]bool) {
	for _, tool := range slices.Backward(c.outside) {
		if !needed[tool] {
			c.once[tool] = true
			return
		}
	}
}

// effects are those that a tool declares: a third of the tools each are non-idempotent, without effects, idempotent. At
// least one of the plugin's is non-idempotent.
func (c *chats) effects(tool string) events.Effects {
	switch {
	case c.once[tool]:
		return events.EffectsNonIdempotent
	case hash(tool)%3 == 1:
		return events.EffectsNone
	}
	return events.EffectsIdempotent
}

// sessionOf names the session that plays a conversation for the n-th time.
func sessionOf(n, conversation int) events.SessionID {
	return events.SessionID(fmt.Sprintf("s%05d-%d", n, conversation))
}

// plan is the inverse of [sessionOf]: the plan of a session's conversation.
func (c *chats) plan(id events.SessionID) (*playback.Plan, error) {
	_, number, _ := strings.Cut(string(id), "-")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n >= len(c.convs) {
		return nil, fmt.Errorf("session %s plays no conversation", id)
	}
	plan := playback.NewPlan(id, &c.convs[n])
	plan.MayLose = c.once
	return plan, nil
}

// eachCall visits the calls of a plan.
func eachCall(plan *playback.Plan, visit func(effect events.EffectID, tool string, call *playback.Call)) {
	for id, t := range plan.Turns {
		for i, r := range t.Replies {
			n := 0
			for _, p := range r.Response.Parts {
				if p.Kind == events.PartToolCall {
					visit(turn.ToolEffect(id, int64(i), int64(n)), p.Tool, r.Calls[n])
					n++
				}
			}
		}
	}
}

func hash(text string) uint32 {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(text))
	return sum.Sum32()
}
