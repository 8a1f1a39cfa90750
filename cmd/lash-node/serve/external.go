package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/external"
	"github.com/lash-go/lash/workers/mcp"
)

// externalPlugins reads the plugins that are programs of their own; none without a file.
func (c *Command) externalPlugins() error {
	if c.External == "" {
		return nil
	}
	data, err := program.ReadFile(c.External, program.MaxFileBytes)
	if err != nil {
		return fmt.Errorf("setting external-plugins: %w", err)
	}
	if c.external, err = parseExternal(data, c.taken()); err != nil {
		return fmt.Errorf("setting external-plugins %s: %w", c.External, err)
	}
	return nil
}

// taken are the names of the plugins of this program, and of the external ones that were read.
func (c *Command) taken() (names []string) {
	for _, p := range c.adds.available() {
		names = append(names, p.name)
	}
	for _, f := range workers.Builtins() {
		names = append(names, f.ID())
	}
	for i := range c.external {
		names = append(names, c.external[i].Name)
	}
	return append(names, mcp.ID)
}

// servePlugins lets calls of plugins request operations of the node.
func (n *Node) servePlugins(cfg *workers.Config) error {
	if n.external == nil {
		return nil
	}
	return n.external.ServeAPI(external.APIConfig{Service: n.Host(), Access: cfg.Access, Memory: n.node.Memory()})
}

// startExternal starts the external plugins, before the node that calls them.
func (c *Command) startExternal(ctx context.Context, s *program.Streams, n *Node, cfg *workers.Config) (err error) {
	if len(c.external) > 0 {
		if n.external, err = external.New(external.Config{Bus: n.bus, Plugins: c.external, Logger: cfg.Logger}); err != nil {
			return err
		}
		c.stack.Factories = append(c.stack.Factories, n.external.Factories()...)
	}
	if err := c.makeMCP(s, n, cfg); err != nil {
		return err
	}
	if cfg.Plugins, err = plugin.NewBuilder(c.stack); err != nil || n.external == nil {
		return err
	}
	over := s.NoteWait("the plugins of %s", c.External)
	err = n.external.Start(ctx)
	over()
	if err != nil {
		return err
	}
	n.closers = append(n.closers, n.external.Stop)
	for _, p := range c.external {
		if n.server != nil {
			s.Printf("plugin %s connects with %s", p.Name, busembed.PluginFile(c.Store, p.Name))
		}
	}
	return nil
}

// lacks says what the node cannot do yet, a line for each; it is empty if there is nothing.
func (n *Node) lacks() string {
	var lines []string
	if line := n.http.lacks(); line != "" {
		lines = append(lines, line)
	}
	if n.external != nil {
		lines = append(lines, n.external.Lacks()...)
	}
	return strings.Join(lines, "\n")
}

// parseExternal reads the JSON of setting external-plugins. Every error begins with its line, and names its field.
func parseExternal(data []byte, taken []string) ([]external.Plugin, error) {
	var file struct {
		Plugins []external.Plugin `json:"plugins"`
	}
	lines, err := fieldLines(data)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &file); err != nil {
		wrong := new(json.UnmarshalTypeError)
		if errors.As(err, &wrong) {
			return nil, fmt.Errorf("line %d: %s: is a %s, want another type", lineOf(data, wrong.Offset), wrong.Field, wrong.Value)
		}
		return nil, err
	}
	for i := range file.Plugins {
		p := &file.Plugins[i]
		field := fmt.Sprintf("plugins[%d]", i)
		err := p.Validate(field)
		same := func(other external.Plugin) bool { return other.Name == p.Name }
		switch {
		case err != nil:
		case slices.Contains(taken, p.Name):
			err = &events.FieldError{Field: field + ".name", Reason: fmt.Sprintf("is %q, a plugin of this program", p.Name), Err: events.ErrInvalid}
		case slices.IndexFunc(file.Plugins, same) < i:
			err = &events.FieldError{Field: field + ".name", Reason: fmt.Sprintf("%q occurs twice", p.Name), Err: events.ErrInvalid}
		}
		if refused, ok := errors.AsType[*events.FieldError](err); ok {
			return nil, fmt.Errorf("line %d: %w", lines.of(refused.Field), err)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(file.Plugins) == 0 {
		return nil, errors.New("line 1: plugins: names no plugin")
	}
	return file.Plugins, nil
}

// fieldNames are the fields that a file may have.
var fieldNames = regexp.MustCompile(`^plugins(\[\d+\](\.(name|effects(\.[^.]+)?|callbacks(\[\d+\])?|changes_others|by_session|tools(\[\d+\])?|manifests(\[\d+\])?))?)?$`)

// lineMap has the line of each field of a JSON text, by its path, as plugins[0].name.
type lineMap map[string]int

// of is the line of a field, or of the field around it where that is missing.
func (l lineMap) of(field string) int {
	for ; field != ""; field = field[:max(strings.LastIndexAny(field, ".["), 0)] {
		if line := l[field]; line > 0 {
			return line
		}
	}
	return 1
}

// fieldLines reads the fields of a JSON object. It refuses unknown fields, and fields that occur twice.
func fieldLines(data []byte) (lineMap, error) {
	w := &fieldWalk{data: data, dec: json.NewDecoder(bytes.NewReader(data)), lines: make(lineMap)}
	err := w.value("")
	if err == nil {
		if _, more := w.dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the JSON object")
		}
	}
	if refused, ok := errors.AsType[*events.FieldError](err); ok {
		return nil, fmt.Errorf("line %d: %w", w.line(), refused)
	}
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", w.line(), err)
	}
	return w.lines, nil
}

// fieldWalk is a walk over the tokens of a JSON text.
type fieldWalk struct {
	data  []byte
	dec   *json.Decoder
	lines lineMap
}

func (w *fieldWalk) line() int { return lineOf(w.data, w.dec.InputOffset()) }

func lineOf(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(int(offset), len(data))], []byte("\n"))
}

// value reads a value at a path. Deep values have a path that no file may have.
func (w *fieldWalk) value(path string) error {
	token, err := w.dec.Token()
	if err != nil {
		return err
	}
	if path == "" && token != json.Delim('{') {
		return errors.New("want an object with the field plugins")
	}
	if w.lines[path] == 0 {
		w.lines[path] = w.line()
	}
	for i := 0; (token == json.Delim('{') || token == json.Delim('[')) && w.dec.More(); i++ {
		at := fmt.Sprintf("%s[%d]", path, i)
		if token == json.Delim('{') {
			key, err := w.dec.Token()
			if err != nil {
				return err
			}
			if at = strings.TrimPrefix(fmt.Sprintf("%s.%s", path, key), "."); w.lines[at] > 0 {
				return &events.FieldError{Field: at, Reason: "occurs twice", Err: events.ErrInvalid}
			}
			w.lines[at] = w.line()
		}
		if !fieldNames.MatchString(at) {
			return &events.FieldError{Field: at, Reason: "is unknown", Err: events.ErrInvalid}
		}
		if err := w.value(at); err != nil {
			return err
		}
	}
	if token == json.Delim('{') || token == json.Delim('[') {
		_, err = w.dec.Token() // its end
	}
	return err
}
