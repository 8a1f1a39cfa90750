package plugincheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// use is a message of the user for the model.
type use struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
}

// answer is the model: it calls the tool that the user names, and repeats its prompt otherwise.
func answer(_ context.Context, req llm.Request) (scripted.Answer, error) {
	var got strings.Builder
	for i := range req.Messages {
		for j := range req.Messages[i].Parts {
			got.WriteString(req.Messages[i].Parts[j].Text + "\n")
		}
	}
	parts := scripted.Text(got.String())
	if said := req.Messages[len(req.Messages)-1]; said.Role == events.RoleUser {
		var u use
		if json.Unmarshal([]byte(said.Parts[0].Text), &u) == nil && u.Tool != "" {
			parts = scripted.Call(u.Tool, string(u.Args))
		}
	}
	return scripted.Answer{Response: llm.Response{Parts: parts, Stop: events.StopEnd}}, nil
}

// turn has a session call a tool, and returns the part of the result.
func (s *setting) turn(ctx context.Context, tool string, args any) (*events.Part, error) {
	view, err := s.say(ctx, string(jsonOf(use{tool, jsonOf(args)})))
	if err != nil {
		return nil, err
	}
	for _, m := range view.Messages {
		for i := range m.Parts {
			if m.Parts[i].Kind == events.PartToolResult {
				return &m.Parts[i], nil
			}
		}
	}
	return nil, errors.New("the history has no result")
}

// say has a session take a turn.
func (s *setting) say(ctx context.Context, text string) (view projector.ReadView, err error) {
	h := s.node.Host()
	id, err := h.Create(ctx, api.CreateRequest{})
	if err != nil {
		return view, err
	}
	turn, err := h.Submit(ctx, id, api.Ask(text))
	if err == nil {
		_, err = h.Await(ctx, id, turn)
	}
	if err != nil {
		return view, fmt.Errorf("turn: %w", err)
	}
	return h.View(ctx, id)
}

// prompted has a session take a turn, and looks for a text in the model's prompt.
func (s *setting) prompted(ctx context.Context, text, want string) error {
	view, err := s.say(ctx, text)
	if err != nil {
		return err
	}
	if last := view.Messages[len(view.Messages)-1]; last.Role != events.RoleAssistant || !strings.Contains(last.Parts[0].Text, want) {
		return fmt.Errorf("the prompt does not have %q", want)
	}
	return nil
}
