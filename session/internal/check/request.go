package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// Limits of the extensions that a session keeps because their protocol does not save its state.
const (
	maxExtensions     = 64       // in number
	maxExtensionBytes = 64 << 10 // their bodies together
)

// Extension refuses an extension that exceeds a limit together with those that the session has.
func Extension(s *projector.State, e events.Extension) error {
	total := len(e.Body)
	for i := range s.Extensions {
		total += len(s.Extensions[i].Body)
	}
	switch {
	case len(s.Extensions) >= maxExtensions:
		return &api.LimitError{What: "extensions", Limit: maxExtensions}
	case total > maxExtensionBytes:
		return &api.LimitError{What: "bytes of extensions", Limit: maxExtensionBytes}
	}
	return nil
}

// ExtensionForm refuses an extension that no history can record. in is the prefix of the fields' names.
func ExtensionForm(in string, e events.Extension) error {
	switch {
	case e.Type == "" || len(e.Type) > events.MaxIDBytes:
		return &events.FieldError{Field: in + "type", Reason: fmt.Sprintf("has %d bytes, want 1 to %d", len(e.Type), events.MaxIDBytes), Err: events.ErrInvalid}
	case len(e.Body) > maxExtensionBytes:
		return &events.FieldError{Field: in + "body", Reason: fmt.Sprintf("has %d bytes, limit is %d", len(e.Body), maxExtensionBytes), Err: events.ErrTooLarge}
	}
	return JSON(in+"body", e.Body)
}

// JSON refuses data that is neither empty nor JSON.
func JSON(field string, data []byte) error {
	if err := events.CheckJSON(field, data); err != nil || len(data) == 0 || json.Valid(data) {
		return err
	}
	return &events.FieldError{Field: field, Reason: "is no JSON", Err: events.ErrInvalid}
}

// Prompt refuses words of white space alone: providers refuse every request that has them. What an absent prompt means, and one of empty
// texts, operations say themselves.
func Prompt(field string, parts []events.Part) error {
	says := false
	for i := range parts {
		p := &parts[i]
		if p.Kind != events.PartText || !p.Blob.IsZero() || strings.TrimSpace(p.Text) != "" {
			return nil
		}
		says = says || p.Text != ""
	}
	if !says {
		return nil
	}
	return &events.FieldError{Field: field, Reason: "has nothing but white space", Err: events.ErrInvalid}
}

// Completion refuses a client's completion that no provider should get, besides [plugin.CompletionRequest.Check].
func Completion(r *plugin.CompletionRequest) error {
	if len(r.Messages) == 0 {
		return &events.FieldError{Field: "messages", Reason: "is empty", Err: events.ErrInvalid}
	}
	for i := range r.Messages {
		if err := r.Messages[i].Validate(); err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
	}
	if err := completionTools(r.Tools); err != nil {
		return err
	}
	return (&events.SessionConfigured{Config: events.Config{Model: r.Model, Effort: r.Effort, MaxOutputTokens: r.MaxTokens, Sampling: r.Sampling}}).Validate()
}

func completionTools(list []plugin.CompletionTool) error {
	names := make(map[string]bool, len(list))
	for i := range list {
		switch name := list[i].Name; {
		case name == "" || len(name) > events.MaxIDBytes:
			return &events.FieldError{Field: "tools.name", Reason: fmt.Sprintf("has %d bytes, want 1 to %d", len(name), events.MaxIDBytes), Err: events.ErrInvalid}
		case names[name]:
			return &events.FieldError{Field: "tools", Reason: fmt.Sprintf("%q occurs twice", name), Err: events.ErrInvalid}
		}
		names[list[i].Name] = true
	}
	return nil
}

// Create refuses fields of a request that no later check reads before they are recorded.
func Create(r *api.CreateRequest) error {
	long := func(field, text string) error {
		if len(text) > events.MaxIDBytes {
			return &events.FieldError{Field: field, Reason: fmt.Sprintf("has %d bytes, limit is %d", len(text), events.MaxIDBytes), Err: events.ErrTooLarge}
		}
		return nil
	}
	switch a := &r.Subagent; {
	case r.Plugins != api.PluginsFresh && r.Plugins != api.PluginsFork:
		return &events.FieldError{Field: "plugins", Reason: fmt.Sprintf("unknown %q", r.Plugins), Err: events.ErrInvalid}
	case r.At > 0 && r.Start != api.StartExisting:
		return &events.FieldError{Field: "at", Reason: fmt.Sprintf("goes with the start %q", api.StartExisting), Err: events.ErrInvalid}
	case a.Depth < 0 || a.MaxDepth < 0:
		return &events.FieldError{Field: "subagent", Reason: "has a negative depth", Err: events.ErrInvalid}
	}
	return errors.Join(r.CheckSnapshot(), long("usage", r.Usage), long("subagent.capability", r.Subagent.Capability))
}
