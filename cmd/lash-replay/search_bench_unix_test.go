//go:build unix

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/projector/index"
)

// BenchmarkSearch searches 10 000 sessions of 4 turns and about 400 different words each, of which 9 000 are cold. It
// reports percentiles of 100 searches for a rare word, two frequent ones, a word that does not exist, and a tool; the
// processor time of a search, in which the server is; and, in turn with them, the median of the test of the index alone. An archiver
// has packed the rows, and 500 sessions moved after that.
func BenchmarkSearch(b *testing.B) {
	const sessions, hot, moved = 10_000, 1_000, 500
	writer, reader := onServer(b)
	archiver := follow.NewArchiver(writer, follow.ArchiverConfig{})
	next := make(chan int)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for i := range next {
				id := events.SessionID(fmt.Sprintf("s%05d", i))
				err := oneCommit(b.Context(), writer.Log(), id, 4, vocabulary(uint64(i), 60))
				if err != nil {
					b.Error(err)
				}
				if i < hot {
					err = follow.NewProjector(writer, nil).Project(b.Context(), id)
				} else {
					_, err = archiver.Archive(b.Context(), id)
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range sessions {
		next <- i
	}
	close(next)
	wait.Wait()
	rows, size := 0, 0
	stored, _ := reader.Index()
	for value, err := range stored.Values(b.Context()) {
		row, decodeErr := index.Decode(value)
		if err = errors.Join(err, decodeErr); err != nil {
			b.Fatal(err)
		}
		rows, size = rows+1, size+len(row.Words)
	}
	b.Logf("%d rows, %d bytes of words each", rows, size/max(rows, 1))
	runtest.NoError(b, archiver.Retain(b.Context(), time.Now()))
	for i := range moved {
		id := events.SessionID(fmt.Sprintf("s%05d", i))
		c := &events.Commit{ID: events.CommitID(id), Session: id, At: events.MillisOf(time.Now()), Actor: events.Actor{Kind: events.ActorNode, ID: "w"}, Events: []events.Event{
			events.Of("", &events.SessionClosed{Reason: "moved"}),
		}}
		_, err := writer.Log().Append(b.Context(), c, 1)
		if err == nil {
			err = follow.NewProjector(writer, nil).Project(b.Context(), id)
		}
		runtest.NoError(b, err)
	}
	var all, raw []time.Duration
	var used time.Duration
	for b.Loop() {
		for i := range 100 {
			c := []searchCmd{{Text: []string{vocabulary(uint64(i*97), 1)()}}, {Text: []string{wordOf(0), wordOf(1)}}, {Text: []string{"nosuchword"}}, {Tool: "lookup"}}[i%4]
			for j := range c.Text {
				c.Text[j] = strings.TrimSpace(c.Text[j])
			}
			q, err := (&searchCmd{Text: c.Text, Tool: c.Tool, Limit: 20, Matches: 3}).query(&env{now: time.Now})
			runtest.NoError(b, err)
			began := time.Now()
			_, err = reader.Candidates(b.Context(), index.NewPlan(q))
			runtest.NoError(b, err)
			raw = append(raw, time.Since(began))
			used -= processorTime(b)
			began = time.Now()
			out, err := search(b.Context(), reader, q, 20, 3)
			if err != nil || out.Searched != sessions || out.Unindexed != 0 {
				b.Fatal(out, err)
			}
			all = append(all, time.Since(began))
			used += processorTime(b)
		}
	}
	slices.Sort(all)
	slices.Sort(raw)
	b.ReportMetric(float64(raw[len(raw)/2].Microseconds())/1000, "index-ms")
	b.ReportMetric(float64(used.Microseconds())/1000/float64(len(all)), "cpu-ms")
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(all[len(all)*95/100].Microseconds())/1000, "p95-ms")
}
