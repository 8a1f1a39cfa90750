package playback_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/playback"
	"github.com/lash-go/lash/workers/recording"
)

func TestShared(t *testing.T) {
	for _, name := range []string{"airline-chats.jsonl", "coding-session.jsonl"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "data", name))
		if err != nil {
			t.Skip("shared data is absent")
		}
		convs, err := recording.Read(name, bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		b := bustest.Start(t)
		h, _ := session.New(session.Config{Bus: b})
		p := playback.NewPlayer(h)
		w, err := workers.New(workers.Config{Bus: b, Providers: map[string]llm.Provider{"scripted": p.Provider()}, Provider: "scripted", Tools: p.Tools, Logger: zaptest.NewLogger(t)})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer w.Stop(t.Context())
		for i := range convs {
			plan := playback.NewPlan(events.SessionID(fmt.Sprintf("s%d", i)), &convs[i])
			if err := p.Add(plan); err != nil {
				t.Fatal(err)
			}
			last := time.Now()
			if err := p.Play(t.Context(), plan, func(st *playback.Step) {
				if d := time.Since(last); d > 100*time.Millisecond && st.Turn != nil {
					t.Logf("%s %s %v %s replies=%d", plan.Session, st.Turn.ID, d, st.Turn.End, len(st.Turn.Replies))
				}
				last = time.Now()
			}); err != nil {
				t.Fatal(err)
			}
			s, err := h.State(t.Context(), plan.Session)
			if err != nil {
				t.Fatal(err)
			}
			d, err := playback.Compare(t.Context(), b, plan, s)
			if err != nil {
				t.Fatal(err)
			}
			if d != nil {
				t.Error(d)
			}
		}
	}
}
