package recordingtest

import (
	"slices"
	"strings"

	"github.com/lash-go/lash/workers/recording"
)

// Kind is something that recordings of agents have.
type Kind struct {
	Name   string
	Format recording.Format // of the recordings that can have it; empty for all
	add    func(*writer)
}

func (k *Kind) has(f recording.Format) bool { return k.Format == "" || k.Format == f }

// recording is one that has little else.
func (k *Kind) recording(f recording.Format) []byte {
	w := newWriter(1, f)
	k.add(w)
	return w.file(k.Name)
}

const (
	long     = "long_texts"
	thousand = "thousand_entries"
)

// Kinds are all kinds, in no order.
func Kinds() []Kind {
	const chat, pi = recording.FormatChat, recording.FormatPi
	return []Kind{
		{"several_calls", "", func(w *writer) {
			list := w.calls(2 + w.IntN(3))
			w.ask()
			w.act(list...)
			w.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			for _, c := range list {
				w.answer(c)
			}
			w.say()
		}},
		{"unanswered_calls", "", func(w *writer) {
			list := w.calls(3)
			w.ask()
			w.act(list...)
			w.answer(list[1])
			if w.IntN(2) == 0 {
				w.ask()
			}
			w.say()
		}},
		{"call_ids_used_again", "", func(w *writer) {
			for range 2 {
				one, other := w.call(), w.call()
				one["id"], other["id"] = "call_1", "call_1"
				w.ask()
				w.act(one, other)
				w.answer(one)
				w.answer(other)
				w.say()
			}
		}},
		{"late_results", "", func(w *writer) {
			list := w.calls(2)
			w.ask()
			w.act(list...)
			w.answer(list[0])
			w.say()
			w.answer(list[1])
			w.answer(w.call()) // of no reply
			w.ask()
			w.say()
		}},
		{"several_texts", "", func(w *writer) {
			c := w.call()
			w.user(text(w.words()), text(w.words()))
			w.act(c)
			w.result(c, text(w.words()), text(w.foreign()), text(w.words()))
			w.reply("stop", text(w.words()), text(w.words()))
		}},
		{"empty_texts", "", func(w *writer) {
			c := w.call()
			w.user(text(""))
			w.reply("toolUse", text(""), c)
			w.result(c, text(""))
			w.reply("stop", text(""))
			w.user()
			w.reply("stop")
		}},
		{"unicode_texts", "", func(w *writer) {
			c, word := w.call(), "жук "
			c["arguments"] = object{"note": word + w.foreign()}
			w.user(text(word + w.foreign()))
			w.act(c)
			w.result(c, text(word+w.foreign()))
			w.reply("stop", text(word+w.foreign()))
		}},
		{long, "", func(w *writer) {
			c := w.call()
			w.ask()
			w.act(c)
			line := w.foreign() + "\n"
			w.result(c, text(strings.Repeat(line, 1+(70_000+w.IntN(100_000))/len(line)))) // more than an event has inline
			w.say()
		}},
		{"pictures", "", func(w *writer) {
			c := w.call()
			w.user(text(w.words()), w.picture())
			w.act(c)
			w.result(c, text(w.words()), w.picture())
			w.say()
		}},
		{"thinking", "", func(w *writer) {
			c := w.call()
			w.ask()
			w.reply("toolUse", w.thinking(w.words()), c)
			w.answer(c)
			w.reply("stop", w.thinking(w.foreign()), text(w.words()))
		}},
		{"unknown_fields", "", func(w *writer) {
			w.ask()
			w.say()
			for _, e := range w.list[len(w.list)-2:] {
				e["weather"] = object{"rain": true}
			}
		}},
		{"unknown_parts", "", func(w *writer) {
			c := w.call()
			w.user(text(w.words()), object{"type": "smell", "of": "basil"})
			w.act(c)
			w.result(c, object{"type": "smell", "of": w.foreign()}, text(w.words()))
			w.say()
		}},
		{"users_in_a_row", "", func(w *writer) {
			w.ask()
			w.ask()
			w.say()
		}},
		{"replies_in_a_row", "", func(w *writer) {
			w.say()
			w.say()
		}},
		{"ends_on_user", "", func(w *writer) {
			w.ask()
			w.say()
			w.ask()
		}},
		{"ends_on_result", "", func(w *writer) {
			c := w.call()
			w.ask()
			w.act(c)
			w.answer(c)
		}},
		{"system_messages", chat, func(w *writer) {
			w.system()
			w.ask()
			w.system()
			w.say()
		}},
		{"functions", chat, func(w *writer) {
			w.ask()
			w.message(object{"role": "assistant", "content": nil, "function_call": object{"name": "water", "arguments": `{"row": 2}`}})
			w.message(object{"role": "function", "name": "water", "content": w.words()})
			w.message(object{"role": "assistant", "content": nil, "refusal": w.words()})
		}},
		{"aborted_replies", pi, func(w *writer) {
			for _, parts := range [][]object{nil, {text(w.words())}, {w.thinking(w.words()), text(w.words()), w.call()}} {
				w.ask()
				w.reply("aborted", parts...)
			}
		}},
		{"aborted_calls", pi, func(w *writer) {
			list := w.calls(2)
			list[1]["partialJson"] = `{"bed`
			w.ask()
			w.reply("aborted", list...)
			w.outcome(list[0], true, []object{text("the call was aborted")})
		}},
		{"failed_replies", pi, func(w *writer) {
			w.ask()
			w.reply("error")
			w.reply("error", text(w.words()))
			w.say()
		}},
		{"failed_results", pi, func(w *writer) {
			c := w.call()
			w.ask()
			w.act(c)
			w.outcome(c, true, []object{text(w.words())})
			w.say()
		}},
		{"cut_replies", pi, func(w *writer) {
			w.ask()
			w.reply("length", text(w.words()))
		}},
		{"compactions", pi, func(w *writer) {
			w.ask()
			w.say()
			w.compact()
			w.ask()
			w.say()
		}},
		{"branches", pi, func(w *writer) {
			w.tree = w.tree || len(w.list) == 0
			w.ask()
			fork := w.last
			w.say()
			w.ask()
			w.say()
			left := w.last
			w.last = fork
			if w.IntN(2) == 0 {
				w.entry("branch_summary", object{"fromId": left, "summary": w.words()})
			}
			w.say()
			w.ask()
			w.say()
		}},
		{"shell_commands", pi, func(w *writer) {
			w.ask()
			w.say()
			w.shell()
			w.ask()
			w.say()
		}},
		{"several_models", pi, func(w *writer) {
			for range 2 {
				w.settings()
				w.ask()
				w.say()
			}
		}},
		{"unknown_entries", pi, func(w *writer) {
			w.ask()
			w.unknown()
			w.say()
			w.message(object{"role": "gardener", "content": []object{text(w.words())}, "display": true})
		}},
		{thousand, pi, func(w *writer) { w.fill(1000) }},
	}
}

// fill adds entries of all kinds, until the recording has n. Those with long texts are rare.
func (w *writer) fill(n int) {
	w.rare = 2 + w.IntN(20)
	list := slices.DeleteFunc(Kinds(), func(k Kind) bool { return !k.has(w.format) || k.Name == thousand })
	for len(w.list) < n {
		if k := &list[w.IntN(len(list))]; k.Name != long || w.IntN(8) == 0 {
			k.add(w)
		}
	}
}

// between adds an entry that may be anywhere.
func (w *writer) between() {
	if w.format == recording.FormatChat {
		if w.IntN(2) == 0 {
			w.system()
		} else {
			w.answer(w.call())
		}
		return
	}
	switch w.IntN(7) {
	case 0:
		w.compact()
	case 1:
		w.settings()
	case 2:
		w.shell()
	case 3:
		w.answer(w.call())
	case 4:
		if w.tree && len(w.ids) > 0 {
			w.last = w.one(append(w.ids, "", "missing")...)
		}
	default:
		w.unknown()
	}
}

func (w *writer) system() {
	w.message(object{"role": w.one("system", "developer"), "content": w.words()})
}

func (w *writer) compact() {
	fields := object{"summary": w.words(), "tokensBefore": w.IntN(9000)}
	if w.tree {
		fields["firstKeptEntryId"] = w.one(append(w.ids, "missing")...)
	} else {
		fields["firstKeptEntryIndex"] = w.IntN(len(w.list) + 1)
	}
	w.entry("compaction", fields)
}

func (w *writer) shell() {
	w.entry("message", object{"message": object{
		"role": "bashExecution", "command": "ls beds", "output": w.foreign(), "exitCode": w.IntN(2), "cancelled": false, "truncated": false,
	}})
}

func (w *writer) settings() {
	if w.IntN(2) == 0 {
		w.entry("thinking_level_change", object{"thinkingLevel": w.one("off", "low", "high")})
	}
	w.model = w.one(slices.DeleteFunc([]string{"oak-2", "elm-1", "ash-3"}, func(m string) bool { return m == w.model })...)
	w.entry("model_change", object{"provider": "grove", "modelId": w.model})
}

// unknown adds an entry of a type that lash does not know.
func (w *writer) unknown() {
	switch w.IntN(4) {
	case 0:
		w.entry("label", object{"targetId": w.last, "label": w.words()})
	case 1:
		w.entry("custom", object{"customType": "beds", "data": object{"open": []int{1, w.IntN(9)}}})
	case 2:
		w.entry("custom_message", object{"customType": "beds", "content": w.words(), "display": false})
	default:
		w.entry("harvest", object{"kilograms": 1.50, "of": w.foreign()})
	}
}
