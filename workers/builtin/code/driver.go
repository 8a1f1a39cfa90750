package code

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/code/internal/sandbox"
)

// driver describes the language to the model, and reads programs from replies.
type driver struct{}

func (driver) Preamble(in plugin.PreambleInput) plugin.Preamble {
	o, err := ParseOptions(in.Options)
	if err != nil {
		o = Options{} // they were checked before
	}
	return plugin.Preamble{
		Contributions: contributions(in.Tools, o),
		HideTools:     true,
		Render:        renderPrograms,
		Read:          func(r plugin.Response) plugin.Reading { return read(r, o) },
		Complete:      sandbox.Closed,
	}
}

// program is the arguments of the call for a block.
type program struct {
	Language string `json:"language"`
	Code     string `json:"code"`
}

// callID is the id of every program's call: a reply has at most one.
const callID = "code"

// Corrections that the model reads, after which the turn continues.
const (
	correctOpen = "The code block of your reply is not closed, so it did not run. Write it again, closed by a line of the same fence."
	correctCall = "There are no tool calls beside code here. Call tools in a fenced block: they are functions."
	correctEnd  = "Your reply has no code block, so it does not end the turn. Write a fenced block, and call finish(value) in it when you are done."
)

// read returns the first block of a reply as a call. It drops the text after the block, and the provider's own tool
// calls, as no tool was offered.
func read(r plugin.Response, o Options) plugin.Reading {
	var text string
	var kept []events.Part
	called := ""
	for i := range r.Parts {
		switch p := r.Parts[i]; p.Kind {
		case events.PartText:
			text += p.Text
		case events.PartToolCall:
			called = p.Tool
		case events.PartReasoning, events.PartAttachment, events.PartToolResult:
			kept = append(kept, p)
		}
	}
	before, code, lang, ok := sandbox.Fence(text)
	if ok {
		args, _ := json.Marshal(program{lang, code}) // strings can always be encoded
		kept = withText(kept, strings.TrimRight(before, " \t\r\n"))
		return plugin.Reading{Parts: append(kept, events.Part{Kind: events.PartToolCall, Call: callID, Tool: plugin.ToolCode, Args: args})}
	}
	reading := plugin.Reading{Parts: withText(kept, text)}
	switch {
	case called != "":
		if text == "" {
			reading.Parts = withText(kept, "(called "+called+")")
		}
		reading.Correct = correctCall
	case open(text):
		reading.Correct = correctOpen
	case o.Termination == FinishRequired:
		reading.Correct = correctEnd
	}
	return reading
}

func withText(parts []events.Part, text string) []events.Part {
	if text == "" {
		return parts
	}
	return append(slices.Clip(parts), events.Part{Kind: events.PartText, Text: text})
}

// open reports whether a block of code begins in a text and does not end.
func open(text string) bool {
	for _, fence := range []string{"\n```\n", "\n````\n", "\n~~~\n"} {
		if _, _, _, ok := sandbox.Fence(text + fence); ok {
			return true
		}
	}
	return false
}

// renderPrograms renders programs as the blocks that the model wrote, and their results as messages of the user.
func renderPrograms(messages []events.Message) []events.Message {
	list := slices.Clone(messages)
	for i := range list {
		if slices.ContainsFunc(list[i].Parts, ours) {
			list[i].Parts = asText(list[i].Parts)
		}
	}
	return list
}

func ours(p events.Part) bool {
	return p.Tool == plugin.ToolCode && (p.Kind == events.PartToolCall || p.Kind == events.PartToolResult)
}

func asText(parts []events.Part) []events.Part {
	list := make([]events.Part, 0, len(parts))
	for _, p := range parts {
		switch {
		case !ours(p):
			list = append(list, p)
		case p.Kind == events.PartToolResult && !p.Blob.IsZero():
			list = append(list, events.Part{Kind: events.PartText, Text: "[output]\n"}, events.Part{Kind: events.PartText, Blob: p.Blob})
		case p.Kind == events.PartToolResult:
			list = append(list, events.Part{Kind: events.PartText, Text: "[output]\n" + p.Text})
		default:
			block := blockOf(p.Args)
			if n := len(list); n > 0 && list[n-1].Kind == events.PartText && list[n-1].Blob.IsZero() {
				list[n-1].Text += "\n\n" + block
				continue
			}
			list = append(list, events.Part{Kind: events.PartText, Text: block})
		}
	}
	return list
}

// blockOf renders a program as a block with a fence that is not in its lines.
func blockOf(args []byte) string {
	var p program
	if err := json.Unmarshal(args, &p); err != nil {
		p.Code = "# this program cannot be shown\n"
	}
	if p.Language == "" {
		p.Language = "starlark"
	}
	if !strings.HasSuffix(p.Code, "\n") {
		p.Code += "\n"
	}
	fence := "```"
	for strings.Contains(p.Code, fence) {
		fence += "`"
	}
	return fence + p.Language + "\n" + p.Code + fence
}
