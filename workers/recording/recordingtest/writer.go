package recordingtest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/lash-go/lash/workers/recording"
)

type object = map[string]any

// writer writes one recording. Parts of messages have pi's form; a chat gets its own form of them.
type writer struct {
	*rand.Rand
	format recording.Format
	tree   bool // of pi: entries have ids and parents
	rare   int  // one of so many messages has an entry of another kind before it; 0: none
	list   []object
	ids    []string // of entries, in a tree
	last   string   // the entry before the next one; empty for none
	model  string
}

func newWriter(seed uint64, format recording.Format) *writer {
	w := &writer{Rand: rand.New(rand.NewPCG(seed, 1)), format: format, model: "oak-2"} //nolint:gosec // the same for the same seed
	w.tree = w.IntN(3) > 0
	return w
}

// file is the recording as lines of JSON.
func (w *writer) file(name string) []byte {
	id := string(w.format) + "_" + name
	if w.format == recording.FormatChat {
		return line(object{"id": id, "reward": w.IntN(2), "messages": w.list})
	}
	head := object{"type": "session", "id": id, "cwd": "/garden", "timestamp": w.time(0)}
	if w.tree {
		head["version"] = 3
	} else {
		head["provider"], head["modelId"], head["thinkingLevel"] = "grove", w.model, "off"
	}
	out := line(head)
	for _, e := range w.list {
		out = append(out, line(e)...)
	}
	return out
}

func line(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("recordingtest: " + err.Error()) // objects of this package encode
	}
	return b.Bytes()
}

func (w *writer) time(after int) string {
	return time.UnixMilli(1_767_600_000_000 + int64(after)*1500).UTC().Format("2006-01-02T15:04:05.000Z")
}

// entry adds a line of a session of pi.
func (w *writer) entry(kind string, fields object) {
	e := object{"type": kind, "timestamp": w.time(len(w.list))}
	for key, v := range fields {
		e[key] = v
	}
	if w.tree {
		e["id"], e["parentId"] = fmt.Sprintf("%08x", w.Uint32()), nil
		if w.last != "" {
			e["parentId"] = w.last
		}
		w.last = e["id"].(string)
		w.ids = append(w.ids, w.last)
	}
	w.list = append(w.list, e)
}

// message adds a message, after entries of other kinds where they are mixed.
func (w *writer) message(m object) {
	if rare := w.rare; rare > 0 && w.IntN(rare) == 0 {
		w.rare = 0
		w.between()
		w.rare = rare
	}
	if w.format == recording.FormatPi {
		w.entry("message", object{"message": m})
		return
	}
	w.list = append(w.list, m)
}

// user adds a message of the user.
func (w *writer) user(parts ...object) {
	w.message(object{"role": "user", "content": w.content(parts)})
}

// ask adds a question of the user.
func (w *writer) ask() { w.user(text(w.words())) }

// reply adds a reply with pi's reason of its end, which a chat does not have.
func (w *writer) reply(stop string, parts ...object) {
	if w.format == recording.FormatPi {
		m := object{
			"role": "assistant", "api": "grove-messages", "provider": "grove", "model": w.model, "stopReason": stop, "content": parts,
			"usage": object{"input": w.IntN(900), "output": w.IntN(90), "cacheRead": w.IntN(9000), "cacheWrite": 0, "cost": object{"total": 0.25}},
		}
		if parts == nil {
			m["content"] = []object{}
		}
		if stop == "error" || stop == "aborted" {
			m["errorMessage"] = "the reply was not complete"
		}
		w.message(m)
		return
	}
	m := object{"role": "assistant", "content": nil}
	var rest, calls []object
	for _, p := range parts {
		switch p["type"] {
		case "thinking":
			m["reasoning_content"] = p["thinking"]
		case "toolCall":
			args := strings.TrimSpace(string(line(p["arguments"])))
			if w.IntN(2) == 0 {
				args = strings.ReplaceAll(args, ":", " : ")
			}
			calls = append(calls, object{"id": p["id"], "type": "function", "function": object{"name": p["name"], "arguments": args}})
		default:
			rest = append(rest, p)
		}
	}
	if len(rest) > 0 {
		m["content"] = w.content(rest)
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	w.message(m)
}

// say adds a reply that ends a turn.
func (w *writer) say() { w.reply("stop", text(w.words())) }

// act adds a reply with calls, and sometimes a text before them.
func (w *writer) act(calls ...object) {
	if w.IntN(2) == 0 {
		calls = append([]object{text(w.words())}, calls...)
	}
	w.reply("toolUse", calls...)
}

// result adds the result of a call.
func (w *writer) result(call object, parts ...object) { w.outcome(call, false, parts) }

func (w *writer) outcome(call object, failed bool, parts []object) {
	if w.format == recording.FormatChat {
		w.message(object{"role": "tool", "tool_call_id": call["id"], "name": call["name"], "content": w.content(parts)})
		return
	}
	m := object{"role": "toolResult", "toolCallId": call["id"], "toolName": call["name"], "content": parts, "isError": failed}
	if w.IntN(3) == 0 {
		m["details"] = object{"lines": w.IntN(100)}
	}
	w.message(m)
}

// answer adds a result of one text.
func (w *writer) answer(call object) { w.result(call, text(w.words())) }

// content is a content of a message: a string or a list of parts.
func (w *writer) content(parts []object) any {
	if len(parts) == 1 && parts[0]["type"] == "text" && (w.format == recording.FormatChat || w.IntN(4) == 0) {
		return parts[0]["text"]
	}
	list := []object{}
	for _, p := range parts {
		if p["type"] == "image" && w.format == recording.FormatChat {
			p = object{"type": "image_url", "image_url": object{"url": fmt.Sprintf("data:%s;base64,%s", p["mimeType"], p["data"])}}
		}
		list = append(list, p)
	}
	return list
}

func text(s string) object { return object{"type": "text", "text": s} }

func (w *writer) thinking(s string) object {
	return object{"type": "thinking", "thinking": s, "thinkingSignature": "signed-" + fmt.Sprint(w.IntN(1000))}
}

func (w *writer) picture() object {
	data := make([]byte, 3+w.IntN(60))
	for i := range data {
		data[i] = byte(w.IntN(256))
	}
	return object{"type": "image", "mimeType": w.one("image/png", "image/jpeg"), "data": base64.StdEncoding.EncodeToString(data)}
}

// call is a call of a tool, with an id of its own.
func (w *writer) call() object {
	args := object{"bed": w.words(), "row": w.IntN(50)}
	switch w.IntN(5) {
	case 0:
		args = object{}
	case 1:
		args["depths"], args["plan"] = []any{0.5, -1, nil, true}, object{"note": w.foreign()}
	}
	return object{
		"type": "toolCall", "id": fmt.Sprintf("call_%x", w.Uint64()), "name": w.one("read_bed", "list_seeds", "water", "note_down"), "arguments": args,
	}
}

func (w *writer) calls(n int) (list []object) {
	for range n {
		list = append(list, w.call())
	}
	return list
}

func (w *writer) one(list ...string) string { return list[w.IntN(len(list))] }

// words are some words of a gardener.
func (w *writer) words() string {
	list := strings.Fields("the beans peas need water in row seven before noon and two more trays of kale are ready to plant near a wall of old brick")
	words := make([]string, 1+w.IntN(9))
	for i := range words {
		words[i] = w.one(list...)
	}
	return strings.Join(words, " ") + w.one(".", "?", "!", "")
}

// foreign is a text of characters beyond ASCII, and of those that formats escape.
func (w *writer) foreign() string {
	return w.words() + w.one(" Gießkanne, für später", " 菜园里的豆子", " الفاصوليا", " 🌱👩🏽‍🌾", " e\u0301 \u200b\u2028", " \"a\\b\"\t</bed>\r\n", " \u0000\u001f", " \U0010fffd")
}
