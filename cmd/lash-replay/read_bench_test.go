package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
)

// onServer starts a server, and opens it as writers and as lash-replay do.
func onServer(b *testing.B) (*bus.Bus, *busSource) {
	b.Helper()
	server := bustest.Server(b, busembed.Config{Listen: true})
	writer, err := bus.Open(b.Context(), bus.Config{URL: server.URL()})
	runtest.NoError(b, err)
	reader, err := bus.OpenReader(b.Context(), bus.Config{URL: server.URL()})
	runtest.NoError(b, err)
	b.Cleanup(func() {
		reader.Close()
		writer.Close()
	})
	return writer, &busSource{Bus: reader}
}

// benchSession appends turns of six events in six commits, about 1.3 KB of text each.
func benchSession(tb testing.TB, log events.Log, id events.SessionID, turns int, say func() string) events.Seq {
	tb.Helper()
	at, state := events.Seq(0), projector.New(id)
	add := func(list ...events.Event) {
		c := &events.Commit{
			ID: events.CommitID(ulid.Make().String()), Session: id, At: events.MillisOf(time.Now()), Actor: events.Actor{Kind: events.ActorNode, ID: "w"}, Events: list,
		}
		var err error
		if at, err = log.Append(tb.Context(), c, at); err == nil {
			err = state.Apply(events.Entry{Seq: at, Commit: c})
		}
		if err != nil {
			tb.Error(err)
		}
	}
	prompt := func() events.PromptRef {
		p, err := state.Prompt()
		if err != nil {
			tb.Error(err)
		}
		return p.Ref
	}
	text := func() []events.Part { return []events.Part{{Kind: events.PartText, Text: say()}} }
	add(events.Of("", &events.SessionOpened{Config: events.Config{Model: "m1"}}))
	for i := range turns {
		turn := events.TurnID(fmt.Sprintf("t%d", i))
		call := events.Part{Kind: events.PartToolCall, Call: "c", Tool: "lookup", Args: []byte(`{"id":4711}`)}
		add(events.Of(turn, &events.TurnRequested{Input: events.TurnInput{Parts: text()}}))
		add(events.Of(turn, &events.TurnStarted{Attempt: 1, Worker: "w"}))
		add(events.Of(turn, &events.ModelReplied{Prompt: prompt(), Parts: []events.Part{call}, Stop: events.StopToolUse, Model: "m1", Usage: events.Usage{Input: 10, Output: 5}}))
		add(events.Of(turn, &events.ToolReturned{Results: []events.ToolResult{{Text: say(), Millis: 3}}}))
		add(events.Of(turn, &events.ModelReplied{Iteration: 1, Prompt: prompt(), Parts: text(), Stop: events.StopEnd, Model: "m1"}))
		add(events.Of(turn, &events.TurnCompleted{End: events.EndFinished}))
	}
	return at
}

// vocabulary draws texts of words, the frequent ones often, as in a language.
func vocabulary(seed uint64, words int) func() string {
	r := rand.New(rand.NewPCG(seed, 1))
	z := rand.NewZipf(r, 1.1, 8, 40_000)
	return func() string {
		var text strings.Builder
		for range words {
			text.WriteString(wordOf(z.Uint64()) + " ")
		}
		return text.String()
	}
}

// wordOf is a word of about six letters. 400 of them take 2 KB in a row, as the words of a recorded chat do.
func wordOf(n uint64) string { return strconv.FormatUint(n*15_485_863%2_000_000_011, 36) }

// oneCommit makes a session of turns in one commit.
func oneCommit(ctx context.Context, log events.Log, id events.SessionID, turns int, say func() string) error {
	text := func() []events.Part { return []events.Part{{Kind: events.PartText, Text: say()}} }
	list := []events.Event{events.Of("", &events.SessionOpened{Config: events.Config{Model: "m1"}})}
	for i := range turns {
		turn := events.TurnID(fmt.Sprintf("t%d", i))
		call := events.Part{Kind: events.PartToolCall, Call: "c", Tool: "lookup", Args: []byte(`{"id":4711}`)}
		list = append(list,
			events.Of(turn, &events.TurnRequested{Input: events.TurnInput{Parts: text()}}), events.Of(turn, &events.TurnStarted{Attempt: 1, Worker: "w"}),
			events.Of(turn, &events.ModelReplied{Parts: []events.Part{call}, Stop: events.StopToolUse, Model: "m1"}),
			events.Of(turn, &events.ToolReturned{Results: []events.ToolResult{{Text: say()}}}),
			events.Of(turn, &events.ModelReplied{Iteration: 1, Parts: text(), Stop: events.StopEnd, Model: "m1"}), events.Of(turn, &events.TurnCompleted{End: events.EndFinished}))
	}
	_, err := log.Append(ctx, &events.Commit{
		ID: events.CommitID(ulid.Make().String()), Session: id, At: events.MillisOf(time.Now()), Actor: events.Actor{Kind: events.ActorNode, ID: "w"}, Events: list,
	}, 0)
	return err
}
