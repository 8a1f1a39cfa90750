// Package modelcheck sends a fixed set of small requests to a model's endpoint, and says what the endpoint can do.
package modelcheck

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// Verdict is the result of a check.
type Verdict string

// Verdicts.
const (
	Yes Verdict = "yes"
	No  Verdict = "no"
	Odd Verdict = "odd" // the request is taken, and the reply is not what was asked for: small models do that
)

// Row is one check and its result.
type Row struct {
	Check  string  `json:"check"`
	Result Verdict `json:"result"`
	Detail string  `json:"detail"`
	Millis int64   `json:"ms"`
	Needed bool    `json:"needed"` // sessions do not work without it
}

// Config says what is checked.
type Config struct {
	Provider llm.Provider
	Model    string
	Long     int           // tokens of the long prompt, about
	Timeout  time.Duration // of each request
}

// Run makes the checks, in order, and passes each row to show. It returns whether all that is needed holds.
func Run(ctx context.Context, cfg Config, show func(Row)) bool {
	good := true
	for _, c := range checks(cfg) {
		row := c.run(ctx, cfg)
		show(row)
		good = good && (row.Result != No || !row.Needed)
		if ctx.Err() != nil {
			return false
		}
	}
	return good
}

// check is one request, and what its reply must have.
type check struct {
	name   string
	needed bool
	change func(*llm.Request)
	// judge returns what is odd about a reply, or empty, and what to show.
	judge func(got) (odd, detail string)
}

// got is a reply and its deltas.
type got struct {
	llm.Response
	deltas int
}

func (g got) text() string { return strings.TrimSpace(events.Message{Parts: g.Parts}.Text()) }

func (g got) calls() (list []events.Part) {
	for _, p := range g.Parts {
		if p.Kind == events.PartToolCall {
			list = append(list, p)
		}
	}
	return list
}

func (c *check) run(ctx context.Context, cfg Config) Row {
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	req := llm.Request{Session: "check", Turn: "check", Effect: events.EffectID(strings.ReplaceAll(c.name, " ", "-")), Model: cfg.Model, Messages: []events.Message{say("Reply with the word ready, and nothing else.")}}
	c.change(&req)
	row, began, deltas := Row{Check: c.name, Result: Yes, Needed: c.needed}, time.Now(), 0
	resp, err := cfg.Provider.Complete(ctx, req, func(llm.Delta) { deltas++ })
	row.Millis = time.Since(began).Milliseconds()
	if err != nil {
		row.Result, row.Detail = No, short(err.Error())
		if errors.Is(err, context.DeadlineExceeded) {
			row.Detail = fmt.Sprintf("no reply in %v", cfg.Timeout)
		}
		return row
	}
	odd, detail := c.judge(got{resp, deltas})
	if row.Detail = short(detail); odd != "" {
		row.Result, row.Detail = Odd, short(strings.TrimSuffix(odd+": "+detail, ": "))
	}
	return row
}

func say(text string, more ...events.Part) events.Message {
	return events.Message{Role: events.RoleUser, Parts: append([]events.Part{{Kind: events.PartText, Text: text}}, more...)}
}

// short is one line.
func short(text string) string {
	return events.Clip(strings.Join(strings.Fields(text), " "), 200, "...")
}

// checks are all checks, in order.
func checks(cfg Config) []check {
	list := []check{
		{"an answer", true, func(*llm.Request) {}, func(g got) (string, string) {
			if g.text() == "" {
				return "no text", string(g.Stop)
			}
			return badEnd(g, events.StopEnd), g.text()
		}},
		{"streaming", false, count, func(g got) (string, string) {
			if g.deltas < 2 {
				return "the reply comes in one piece", ""
			}
			return "", fmt.Sprintf("%d pieces", g.deltas)
		}},
		{"usage", false, func(*llm.Request) {}, func(g got) (string, string) {
			if g.Usage.Input+g.Usage.CacheRead == 0 || g.Usage.Output == 0 {
				return "tokens are not told", ""
			}
			return "", fmt.Sprintf("%d in, %d out", g.Usage.Input+g.Usage.CacheRead, g.Usage.Output)
		}},
		{"a call", true, calling("Call the tool add with a 2 and b 3.", adding()), func(g got) (string, string) {
			return wrongCalls(g, 1)
		}},
		{"a required call", false, func(r *llm.Request) {
			calling("Add 2 and 3.", adding())(r)
			r.ToolChoice.Required = true
		}, func(g got) (string, string) { return wrongCalls(g, 1) }},
		{"two calls at once", false, calling("Call the tool add twice in this one reply: with a 1 and b 2, and with a 3 and b 4.", adding()), func(g got) (string, string) {
			return wrongCalls(g, 2)
		}},
		{"a result", true, func(r *llm.Request) {
			calling("Add 2 and 3.", adding())(r)
			r.Messages = append(r.Messages,
				events.Message{Role: events.RoleAssistant, Parts: []events.Part{{Kind: events.PartToolCall, Call: "call_1", Tool: "add", Args: []byte(`{"a":2,"b":3}`)}}},
				events.Message{Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartToolResult, Call: "call_1", Tool: "add", Text: "5"}}})
		}, func(g got) (string, string) {
			if !strings.Contains(g.text(), "5") {
				return "the answer lacks the result", g.text()
			}
			return "", g.text()
		}},
		{"a system prompt and a later note", false, func(r *llm.Request) {
			system := func(text string) events.Message {
				return events.Message{Role: events.RoleSystem, Parts: []events.Part{{Kind: events.PartText, Text: text}}}
			}
			r.Messages = []events.Message{
				system("You are terse."), say("Hello."),
				{Role: events.RoleAssistant, Parts: []events.Part{{Kind: events.PartText, Text: "Hello."}}},
				system("The password is seven."), say("What is the password? Reply with it alone."),
			}
		}, func(g got) (string, string) {
			if !strings.Contains(strings.ToLower(g.text()), "seven") {
				return "the note did not reach the model", g.text()
			}
			return "", g.text()
		}},
	}
	for _, s := range schemas() {
		list = append(list, check{"a tool with " + s.name, false, calling("Reply with the word ready.", llm.Tool{Name: "probe", Description: "Does nothing.", InputSchema: json.RawMessage(s.schema)}), taken})
	}
	return append(list, []check{
		{"JSON by a schema", false, func(r *llm.Request) {
			r.Messages = []events.Message{say(`Reply with a JSON object whose member n is 7.`)}
			r.Output = llm.Output{Name: "count", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`), Strict: true}
		}, func(g got) (string, string) {
			var v struct{ N *int }
			if json.Unmarshal([]byte(g.text()), &v) != nil || v.N == nil {
				return "another form", g.text()
			}
			return "", g.text()
		}},
		{"a picture", false, func(r *llm.Request) {
			r.Messages = []events.Message{say("Which colour has this picture? Reply with one word.", events.Part{Kind: events.PartAttachment, MediaType: "image/png", Text: red()})}
		}, func(g got) (string, string) {
			if !strings.Contains(strings.ToLower(g.text()), "red") {
				return "it was not seen", g.text()
			}
			return "", g.text()
		}},
		{"a stop sequence", false, func(r *llm.Request) {
			count(r)
			r.Sampling.Stop = []string{"7"}
		}, func(g got) (string, string) {
			if strings.Contains(g.text(), "8") {
				return "it has no effect", g.text()
			}
			return "", g.text()
		}},
		{"a limit of the reply", false, func(r *llm.Request) {
			count(r)
			r.MaxOutputTokens = 16
		}, func(g got) (string, string) { return badEnd(g, events.StopOutputLimit), string(g.Stop) }},
		{fmt.Sprintf("a prompt of %d tokens", cfg.Long), false, func(r *llm.Request) {
			r.Messages = []events.Message{say(strings.Repeat("word ", cfg.Long) + "\nReply with the word ready.")}
		}, taken},
	}...)
}

func count(r *llm.Request) {
	r.Messages = []events.Message{say("Write the numbers from 1 to 30, separated by commas.")}
}

// calling asks for something, with a tool.
func calling(text string, tool llm.Tool) func(*llm.Request) {
	return func(r *llm.Request) { r.Messages, r.Tools = []events.Message{say(text)}, []llm.Tool{tool} }
}

func adding() llm.Tool {
	return llm.Tool{Name: "add", Description: "Adds two numbers.", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}`)}
}

func taken(g got) (odd, detail string) { return "", cmp.Or(g.text(), string(g.Stop)) }

func badEnd(g got, want events.StopReason) string {
	if g.Stop != want {
		return fmt.Sprintf("it ends with %s, not with %s", g.Stop, want)
	}
	return ""
}

func wrongCalls(g got, want int) (odd, detail string) {
	calls := g.calls()
	var args []string
	for _, c := range calls {
		var v struct{ A, B *json.Number }
		if c.Tool != "add" || json.Unmarshal(c.Args, &v) != nil || v.A == nil || v.B == nil {
			return "another call", c.Tool + " " + string(c.Args)
		}
		args = append(args, string(c.Args))
	}
	switch {
	case len(calls) == 0:
		return "no call", g.text()
	case len(calls) != want:
		return fmt.Sprintf("%d calls", len(calls)), strings.Join(args, " ")
	}
	return badEnd(g, events.StopToolUse), strings.Join(args, " ")
}

// schemas are those that endpoints refuse where they are sent as they are.
func schemas() []struct{ name, schema string } {
	return []struct{ name, schema string }{
		{"no parameters", ``},
		{"a choice at the top", `{"type":"object","oneOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{"type":"integer"}},"required":["b"]}]}`},
		{"a choice inside", `{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]}}}`},
		{"a reference", `{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"object","properties":{"y":{"type":"string"}}}}}`},
		{"a list of types", `{"type":"object","properties":{"a":{"type":["string","null"]}}}`},
		{"a constant", `{"type":"object","properties":{"a":{"const":"x"},"b":{"const":1}}}`},
		{"any value", `{"type":"object","properties":{"a":true,"b":{"type":"array"}},"required":["a"]}`},
		{"odd names", `{"type":"object","properties":{"a[]":{"type":"string"},"größe":{"type":"string"}}}`},
		{"a pattern", `{"type":"object","properties":{"a":{"type":"string","pattern":"(?=x)x","format":"uri"}}}`},
	}
}

// red is a picture, in base64.
func red() string {
	p := image.NewRGBA(image.Rect(0, 0, 64, 64))
	draw.Draw(p, p.Rect, image.NewUniform(color.RGBA{R: 220, A: 255}), image.Point{}, draw.Src)
	var b bytes.Buffer
	_ = png.Encode(&b, p) // into memory
	return base64.StdEncoding.EncodeToString(b.Bytes())
}
