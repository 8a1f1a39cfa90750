//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// BenchmarkVerifyAll verifies 1 000 sessions of 1 000 events in one go, and reads the same messages with an ordered
// consumer of each stream, without decoding. Both alternate. The ratios are those of the rates, and of the processor times
// of this process, which has the server too: the latter depends less on other programs.
func BenchmarkVerifyAll(b *testing.B) {
	const sessions, turns = 1_000, 166
	server := bustest.Server(b, busembed.Config{Listen: true})
	writer, err := bus.Open(b.Context(), bus.Config{URL: server.URL()})
	runtest.NoError(b, err)
	b.Cleanup(writer.Close)
	next := make(chan int)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for i := range next {
				benchSession(b, writer.Log(), events.SessionID(fmt.Sprintf("s%04d", i)), turns, vocabulary(uint64(i), 20))
			}
		})
	}
	for i := range sessions {
		next <- i
	}
	close(next)
	wait.Wait()
	var raw, verified, rawCPU, verifiedCPU time.Duration
	for b.Loop() {
		began, used := time.Now(), processorTime(b)
		for i := range sessions {
			runtest.NoError(b, readStream(b.Context(), writer, fmt.Sprintf("lash-s-s%04d", i), 1+turns*6))
		}
		raw, rawCPU = raw+time.Since(began), rawCPU+processorTime(b)-used
		began, used = time.Now(), processorTime(b)
		var out, errs bytes.Buffer
		_ = run(b.Context(), []string{"verify", "--all", "--nats", server.URL()}, &program.Streams{Out: &out, Err: &errs, Env: func(string) string { return "" }})
		verified, verifiedCPU = verified+time.Since(began), verifiedCPU+processorTime(b)-used
		if !strings.Contains(out.String(), "verified 1000 sessions, 997000 events") {
			b.Fatalf("got %.300s %.300s", out.String(), errs.String())
		}
	}
	b.ReportMetric(float64(raw)/float64(verified), "of-raw")
	b.ReportMetric(float64(rawCPU)/float64(verifiedCPU), "cpu-of-raw")
	b.ReportMetric(float64(b.N)*sessions*(1+turns*6)/verified.Seconds(), "commits/s")
}

// processorTime is the time that this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	runtest.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// readStream reads the messages of a stream.
func readStream(ctx context.Context, b *bus.Bus, stream string, n int) error {
	js, err := jetstream.New(b.Conn())
	if err != nil {
		return err
	}
	consumer, err := js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(4096))
	if err != nil {
		return err
	}
	defer messages.Stop()
	for range n {
		if _, err := messages.Next(); err != nil {
			return err
		}
	}
	return nil
}
