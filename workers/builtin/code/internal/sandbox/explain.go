package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// explain converts an error to the text for the model.
func (r *run) explain(err error) string {
	if eval, ok := errors.AsType[*starlark.EvalError](err); ok {
		message := strings.TrimPrefix(eval.Msg, "Starlark computation cancelled: ")
		if name, ok := strings.CutPrefix(message, "internal error: predeclared variable "); ok {
			message = strings.TrimSuffix(name, " is uninitialized") + " is not defined: it was not kept, or the tool is gone"
		}
		return r.traceback(eval.CallStack) + cutText(clean(message), 4000) + hintRuntime(message)
	}
	if list, ok := errors.AsType[resolve.ErrorList](err); ok {
		var lines []string
		for _, e := range list[:min(len(list), 5)] {
			lines = append(lines, r.location(e.Pos)+": "+cutText(clean(e.Msg), 500)+hintRuntime(e.Msg))
		}
		return strings.Join(lines, "\n")
	}
	if e, ok := errors.AsType[syntax.Error](err); ok {
		line := r.line(e.Pos)
		return r.location(e.Pos) + ": " + cutText(clean(e.Msg), 500) + "\n  " + cutText(clean(line), 120) + hintSyntax(line)
	}
	return clean(cutText(err.Error(), 2000))
}

func (r *run) location(pos syntax.Position) string {
	if label, ok := r.program.labels[pos.Filename()]; ok {
		return fmt.Sprintf("line %d of the saved function %s", pos.Line, label)
	}
	return fmt.Sprintf("line %d", pos.Line)
}

func (r *run) line(pos syntax.Position) string {
	if lines := r.program.texts[pos.Filename()]; pos.Line >= 1 && int(pos.Line) <= len(lines) {
		return strings.TrimSpace(lines[pos.Line-1])
	}
	return ""
}

// traceback lists the lines of the program, outermost first.
func (r *run) traceback(stack starlark.CallStack) string {
	var lines []string
	for _, frame := range stack {
		if _, ok := r.program.texts[frame.Pos.Filename()]; !ok || frame.Pos.Line < 1 {
			continue // the prologue has no line
		}
		at := r.location(frame.Pos)
		if frame.Name != "<toplevel>" && frame.Pos.Filename() == codeFile {
			at += ", in " + clean(frame.Name)
		}
		lines = append(lines, at+": "+cutText(clean(r.line(frame.Pos)), 120)+"\n")
	}
	if n := len(lines); n > 8 {
		lines = slices.Concat(lines[:3], []string{fmt.Sprintf("... %d more ...\n", n-7)}, lines[n-4:])
	}
	return strings.Join(lines, "")
}
