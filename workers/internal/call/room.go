package call

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/workers/llm"
)

// refusals are what models refused of the prompts of sessions: later prompts go without it. A node that stops forgets them:
// the next prompt is then refused once more.
type refusals struct {
	mu   sync.Mutex
	list map[refusalKey]refusal
}

// maxRefusals limits the entries of [refusals].
const maxRefusals = 4096

type refusalKey struct {
	session         events.SessionID
	provider, model string
}

type refusal struct {
	window      int64           // tokens of a prompt, as estimated, that did not fit; 0: none
	attachments map[string]bool // by id
}

func (r *refusals) of(k refusalKey) refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list[k]
}

// add records a refusal. The maps of earlier ones do not change.
func (r *refusals) add(k refusalKey, window int64, attachments map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.list == nil || len(r.list) >= maxRefusals {
		r.list = map[refusalKey]refusal{}
	}
	now := r.list[k]
	if window > 0 && (now.window == 0 || window < now.window) {
		now.window = window
	}
	if len(attachments) > 0 {
		attachments = maps.Clone(attachments)
		maps.Copy(attachments, now.attachments)
		now.attachments = attachments
	}
	r.list[k] = now
}

func (r refusal) refuses(p events.Part) bool { return r.attachments[attachmentID(p)] }

// attachmentID identifies the body of an attachment.
func attachmentID(p events.Part) string {
	if !p.Blob.IsZero() {
		return p.Blob.Digest
	}
	sum := sha256.Sum256([]byte(p.Text))
	return hex.EncodeToString(sum[:])
}

// attachmentsOf are the ids of the attachments of messages.
func attachmentsOf(messages []events.Message) map[string]bool {
	ids := map[string]bool{}
	for i := range messages {
		for _, p := range messages[i].Parts {
			if p.Kind == events.PartAttachment {
				ids[attachmentID(p)] = true
			}
		}
	}
	return ids
}

// Shares of a context window.
const (
	inaccuracy = 10     // percent that estimates of tokens may be wrong by
	restAfter  = 75     // percent of the room for messages that pruned ones fill: the next calls of the turn need no new prompt
	mostReply  = 20_000 // tokens that are kept for a reply without a limit, at most a quarter of the window
)

// promptSize estimates the tokens of what a prompt has besides its messages.
func (m *modelRun) promptSize() int64 {
	n := len(m.Prompt.System)
	if !m.Preamble.HideTools {
		for i := range m.Prompt.Tools {
			t := &m.Prompt.Tools[i]
			n += len(t.Name) + len(t.Description) + len(t.Look().Schema) + len(t.Look().Output)
		}
	}
	return int64(n) / 4
}

// room is the number of tokens that the messages of a prompt may have in a window.
func (m *modelRun) room(window int64) int64 {
	reply := min(window/4, mostReply)
	if most := m.Prompt.Config.MaxOutputTokens; most > 0 {
		reply = min(most, window/4*3)
	}
	return max(window*(100-inaccuracy)/100-reply-m.promptSize(), 0)
}

// messages are those of the prompt, with room for the reply in the model's window, and without what it refused before. The
// prompt's reference says whether they are pruned.
func (m *modelRun) messages() []events.Message {
	refused := m.env.refusals.of(m.refusalKey())
	list := m.Prompt.Messages
	window := m.Prompt.Config.ContextWindow
	if refused.window > 0 && (window == 0 || refused.window < window) {
		window = refused.window
	}
	m.Prompt.Ref.Room = 0
	if room := m.room(window); window > 0 && m.used(list) > room {
		room = max(room*restAfter/100, 1)
		if less, n := projector.Prune(list, room); n > 0 {
			list, m.Prompt.Ref.Room = less, room
		}
	}
	if len(refused.attachments) > 0 || m.bare != nil {
		list, _ = llm.WithoutAttachments(list, func(p events.Part) bool { return m.bare != nil || refused.refuses(p) })
	}
	return list
}

// used estimates the tokens of messages: by their bytes, and within a turn by what its last prompt had, if that is more.
func (m *modelRun) used(list []events.Message) int64 {
	n := projector.Tokens(list)
	if m.Needs.Iteration == 0 {
		return n
	}
	last := len(list) - 1
	for last > 0 && list[last].Role != events.RoleAssistant {
		last--
	}
	return max(n, m.At.state.Prompted-m.promptSize()+projector.Tokens(list[max(last, 0):]))
}

func (m *modelRun) refusalKey() refusalKey {
	return refusalKey{m.session, m.providerID(), m.model()}
}

// mended is the request without what an endpoint refused; ok is false where that is not known, or all of it is gone
// already: the same request is not sent again. Each kind of refusal is mended once in a call.
func (m *modelRun) mended(sent *llm.Request, resp *llm.Response, err error) (again llm.Request, failure *llm.Error, ok bool) {
	switch {
	case err == nil && resp.Stop == events.StopContextOverflow:
		failure = &llm.Error{Kind: llm.KindOverflow, Message: resp.Detail}
	case err == nil && m.bare != nil: // it was because of them
		m.env.refusals.add(m.refusalKey(), 0, m.bare)
		return again, nil, false
	case err == nil || !errors.As(err, &failure):
		return again, nil, false
	}
	if ids := attachmentsOf(sent.Messages); failure.OfAttachment() && m.bare == nil && len(ids) > 0 {
		m.bare = ids
		return m.request(), failure, true
	}
	if failure.Kind != llm.KindOverflow || m.pruned {
		return again, failure, false
	}
	m.pruned = true
	before := projector.Tokens(sent.Messages)
	m.env.refusals.add(m.refusalKey(), int64(float64(before+m.promptSize())*failure.Fits()), nil)
	again = m.request()
	return again, failure, projector.Tokens(again.Messages) < before
}

// withAdvice is an overflow that cannot be mended, with what helps.
func (m *modelRun) withAdvice(err error) error {
	failure, ok := errors.AsType[*llm.Error](err)
	if !ok || failure.Kind != llm.KindOverflow {
		return err
	}
	told, window := *failure, ""
	if m.Prompt.Config.ContextWindow == 0 {
		window = ", and set context_window of the session to the tokens of the model's window, so that there is room in time"
	}
	told.Message = clip(fmt.Sprintf("%s; nothing more can be left out of the prompt: compact the session, or begin another one%s", failure.Message, window))
	return &told
}
