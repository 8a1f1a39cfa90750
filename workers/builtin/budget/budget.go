// Package budget limits the tool output that the model reads. Of an output that is too long it reads the beginning or
// the end, with a note of the size. The tool read_output reads the rest in parts.
//
// Guarantees: the history has the whole output, and an output within the limits is not changed. It is the session's
// only result projector. The package imports session/plugin and events.
package budget

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// ID names the plugin in histories.
const ID = "budget"

const tool = "read_output"

// Options of the plugin. A session may have its own.
type Options struct {
	MaxBytes int      `json:"max_bytes,omitempty"` // of one output that the model reads. Defaults to 16 KiB
	MaxLines int      `json:"max_lines,omitempty"` // of one output that the model reads. Defaults to 400
	Tail     []string `json:"tail,omitempty"`      // tools whose output is shown from its end
}

// Factory builds the plugin.
func Factory(o Options) plugin.Factory {
	return plugin.WithOptions(ID, o, func(_ plugin.BuildContext, o Options) (plugin.Plugin, error) {
		o.MaxBytes = cmp.Or(max(o.MaxBytes, 0), 16<<10)
		o.MaxLines = cmp.Or(max(o.MaxLines, 0), 400)
		return budget{o}, nil
	})
}

type budget struct{ o Options }

func (b budget) Register(r *plugin.Registrar) error {
	r.ProjectToolResult(b.project)
	plugin.AddTool(r, plugin.Tool{
		Name: tool, Effects: events.EffectsNone, Description: "Reads lines of a tool's output that was too long to show.",
	}, b.read)
	return nil
}

// project cuts an output that is too long.
func (b budget) project(_ context.Context, in plugin.ToolResultContext) (plugin.View, error) {
	view := in.View()
	all := lines(in.Result.Text)
	if in.Tool == tool || len(in.Result.Text) <= b.o.MaxBytes && len(all) <= b.o.MaxLines {
		return view, nil
	}
	from, upto := b.head(all, 0)
	if slices.Contains(b.o.Tail, in.Tool) {
		from, upto = b.tail(all)
	}
	view.Text = b.render(all, from, upto, in.Call.Effect)
	return view, nil
}

type request struct {
	Output string `json:"output" jsonschema:"which output, as the note under it says"`
	Line   int    `json:"line,omitempty" jsonschema:"the first line to read, from 1"`
}

func (b budget) read(ctx context.Context, call plugin.Call, in request) (string, error) {
	text, err := call.Host.ToolOutput(ctx, call.Session, events.EffectID(in.Output))
	if err != nil {
		return "", err
	}
	all := lines(text)
	from := max(in.Line-1, 0)
	if from >= len(all) {
		return "", fmt.Errorf("line %d: the output has %d", in.Line, len(all))
	}
	from, upto := b.head(all, from)
	return b.render(all, from, upto, events.EffectID(in.Output)), nil
}

// render is a part of an output with a note of what is missing.
func (b budget) render(all []string, from, upto int, call events.EffectID) string {
	shown := strings.Join(all[from:upto], "")
	if len(shown) > b.o.MaxBytes { // one line that is longer than the limit
		shown = strings.ToValidUTF8(shown[:b.o.MaxBytes], "") + " [the line is cut]"
	}
	if from == 0 && upto == len(all) && !strings.HasSuffix(shown, " [the line is cut]") {
		return shown
	}
	return fmt.Sprintf("%s\n[lines %d to %d of %d, %d bytes in all; %s reads others of output %s]",
		strings.TrimSuffix(shown, "\n"), from+1, upto, len(all), size(all), tool, call)
}

// head is the range of lines from one on that fits, at least one line.
func (b budget) head(all []string, from int) (int, int) {
	upto, bytes := from, 0
	for upto < len(all) && upto-from < b.o.MaxLines && (upto == from || bytes+len(all[upto]) <= b.o.MaxBytes) {
		bytes += len(all[upto])
		upto++
	}
	return from, upto
}

// tail is the range of lines that fits at the end, at least one line.
func (b budget) tail(all []string) (int, int) {
	from, bytes := len(all), 0
	for from > 0 && len(all)-from < b.o.MaxLines && (from == len(all) || bytes+len(all[from-1]) <= b.o.MaxBytes) {
		from--
		bytes += len(all[from])
	}
	return from, len(all)
}

func lines(text string) []string { return slices.Collect(strings.Lines(text)) }

func size(all []string) (n int) {
	for _, line := range all {
		n += len(line)
	}
	return n
}
