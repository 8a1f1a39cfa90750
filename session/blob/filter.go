package blob

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/lash-go/lash/events"
)

// Redacted replaces what a filter matches.
const Redacted = "[redacted]"

// Filter replaces text in events before they are stored: what its regular expressions match, in every text and JSON that a
// model, a tool, a plugin or a caller writes. In JSON each string and each number is matched alone. As they are stay names and ids,
// descriptions and schemas of tools, options of plugins and protocols, texts at which replies stop, commands of monitors, states of plugins and of code, and
// bodies that are stored already. A nil Filter replaces nothing.
type Filter struct{ patterns []pattern }

// NewFilter reads patterns, one a line, in the syntax of package regexp. Empty lines and those that begin with # are
// skipped. An error names the line.
func NewFilter(text string) (*Filter, error) {
	f, n := &Filter{}, 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		p, err := newPattern(line)
		if err == nil && len(f.patterns) == maxPatterns {
			err = fmt.Errorf("%w: the limit is %d patterns", events.ErrTooLarge, maxPatterns)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		f.patterns = append(f.patterns, p)
	}
	if len(f.patterns) == 0 {
		return nil, fmt.Errorf("no pattern: %w", events.ErrInvalid)
	}
	return f, nil
}

// Store is a store for [Spill] and its variants, which then filter every event before they look at its bodies. So all
// that is appended is filtered once, before it is folded.
func (f *Filter) Store(s Store) Store {
	if f == nil {
		return s
	}
	return &filteredStore{s, f}
}

type filteredStore struct {
	Store
	filter *Filter
}

// filtered is the payload as a store wants it. Errors: [events.ErrTooLarge] where the patterns need more than maxFilterTime,
// and that of ctx.
func filtered(ctx context.Context, s Store, p events.Payload) (events.Payload, error) {
	f, ok := s.(*filteredStore)
	if !ok || p == nil {
		return p, nil
	}
	w, stop := f.filter.work(ctx)
	defer stop()
	out := w.payload(p)
	return out, w.err
}

// FilterText is a text as the store wants it, for one that is stored without an event. Its errors are those of an event.
func FilterText(ctx context.Context, s Store, text string) (string, error) {
	f, ok := s.(*filteredStore)
	if !ok {
		return text, nil
	}
	w, stop := f.filter.work(ctx)
	defer stop()
	return w.text(text), w.err
}

// payload returns a copy where something matches.
func (f *filterWork) payload(p events.Payload) events.Payload {
	switch p.(type) {
	case *events.PluginStateSaved, *events.FrameStateSaved, *events.AuditHeadSigned:
		return p
	}
	c := reflect.New(reflect.TypeOf(p).Elem())
	c.Elem().Set(reflect.ValueOf(p).Elem())
	if !f.value(c.Elem()) {
		return p
	}
	return c.Interface().(events.Payload)
}

// bodies are the fields with texts, by type.
func bodies(v any) (texts []*string, jsons []*[]byte) {
	switch v := v.(type) {
	case *events.Part:
		return []*string{&v.Text}, []*[]byte{&v.Args, &v.Meta}
	case *events.ToolResult:
		return []*string{&v.Text, &v.Full}, nil
	case *events.NewNode:
		return nil, []*[]byte{&v.Body}
	case *events.ToolApprovalAsked:
		return []*string{&v.Question}, []*[]byte{&v.Args, &v.Places}
	case *events.ToolNestedReturned:
		return nil, []*[]byte{&v.Args}
	case *events.TaskRegistered:
		return []*string{&v.Summary}, []*[]byte{&v.Args}
	case *events.TaskEnded:
		return []*string{&v.Summary}, nil
	case *events.TaskProgressed:
		return []*string{&v.Message}, nil
	case *events.MonitorLine:
		return []*string{&v.Text}, nil
	case *events.Decision:
		return []*string{&v.Message}, []*[]byte{&v.Body}
	case *events.FrameSwitch:
		return []*string{&v.Task}, nil
	case *events.ModelReplied:
		return []*string{&v.Detail, &v.Fault}, nil
	case *events.Extension:
		return nil, []*[]byte{&v.Body}
	}
	return prompts(v), nil
}

// prompts are the fields with texts of the prompt, and else those of [reasons].
func prompts(v any) []*string {
	switch v := v.(type) {
	case *events.Config:
		return []*string{&v.Instructions}
	case *events.Contribution:
		return []*string{&v.Title, &v.Content}
	case *events.PromptLayer:
		return []*string{&v.Title, &v.Content}
	}
	return reasons(v)
}

// reasons are the fields that say why something was done, or failed.
func reasons(v any) []*string {
	switch v := v.(type) {
	case *events.Issue:
		return []*string{&v.Message}
	case *events.FailedTry:
		return []*string{&v.Message}
	case *events.ModelFailed:
		return []*string{&v.Message, &v.Raw}
	case *events.MonitorEnded:
		return []*string{&v.Error}
	case *events.SessionClosed:
		return []*string{&v.Reason}
	case *events.TurnCancelRequested:
		return []*string{&v.Origin, &v.Reason}
	case *events.TaskCancelRequested:
		return []*string{&v.Reason}
	case *events.ToolApprovalGiven:
		return []*string{&v.Reason}
	}
	return nil
}

// value filters a value that can be set, and what it contains. A slice is copied before its first change.
func (f *filterWork) value(v reflect.Value) (changed bool) {
	switch v.Kind() { //nolint:exhaustive // the types of events have no others
	case reflect.Struct:
		texts, jsons := bodies(v.Addr().Interface())
		for _, text := range texts {
			if now := f.text(*text); now != *text {
				*text, changed = now, true
			}
		}
		for _, data := range jsons {
			if now := f.json(*data); !bytes.Equal(now, *data) {
				*data, changed = now, true
			}
		}
		if part, ok := v.Addr().Interface().(*events.Part); ok && changed && part.Kind == events.PartReasoning {
			part.Meta = nil // a signature of the text, without which providers get no reasoning
		}
		for i := range v.NumField() {
			if field := v.Field(i); field.CanSet() && (field.Kind() == reflect.Struct || field.Kind() == reflect.Slice) {
				changed = f.value(field) || changed
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Struct {
			return false
		}
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(c, v)
		for i := range c.Len() {
			changed = f.value(c.Index(i)) || changed
		}
		if changed {
			v.Set(c)
		}
	}
	return changed
}

// json filters every string and number. What is no JSON is filtered as text.
func (f *filterWork) json(data []byte) []byte {
	if len(data) == 0 {
		return data
	}
	if !json.Valid(data) {
		return []byte(f.text(string(data)))
	}
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); {
		end := scalarEnd(data, i)
		if end == i {
			out, i = append(out, data[i]), i+1
			continue
		}
		out, i = append(out, f.scalar(data[i:end])...), end
	}
	return out
}

// scalar filters a string or a number of JSON.
func (f *filterWork) scalar(literal []byte) []byte {
	text := string(literal)
	if literal[0] == '"' && json.Unmarshal(literal, &text) != nil {
		return literal
	}
	now := f.text(text)
	if now == text {
		return literal
	}
	quoted, _ := json.Marshal(now) // never fails for a string
	return quoted
}

// scalarEnd is the end of the string or number that begins at i; i for another byte.
func scalarEnd(data []byte, i int) int {
	number := func(c byte) bool { return c >= '0' && c <= '9' || strings.IndexByte("+-.eE", c) >= 0 }
	switch c := data[i]; {
	case c == '"':
		for k := i + 1; ; k++ {
			switch data[k] {
			case '\\':
				k++
			case '"':
				return k + 1
			}
		}
	case c == '-' || c >= '0' && c <= '9':
		for i < len(data) && number(data[i]) {
			i++
		}
	}
	return i
}
