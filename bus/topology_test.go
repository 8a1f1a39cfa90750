package bus_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

func TestSessionStream(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	grow(t, b.Log(), "s1", 2)
	js := jetStream(t, b)
	stream, err := js.Stream(t.Context(), "lash-s-s1")
	runtest.NoError(t, err)
	cfg := stream.CachedInfo().Config
	for name, ok := range map[string]bool{
		"subjects":     len(cfg.Subjects) == 1 && cfg.Subjects[0] == "lash.s.s1.>",
		"file":         cfg.Storage == jetstream.FileStorage,
		"replicas":     cfg.Replicas == 1,
		"deny delete":  cfg.DenyDelete,
		"deny purge":   cfg.DenyPurge,
		"direct get":   cfg.AllowDirect,
		"message size": cfg.MaxMsgSize == 1<<20,
		"republish":    cfg.RePublish != nil && cfg.RePublish.Source == "lash.s.s1.>" && cfg.RePublish.Destination == "lash.live.s1.>",
		"format":       cfg.Metadata["lash-format"] == strconv.Itoa(events.FormatVersion),
		"no limits":    cfg.MaxAge == 0 && cfg.MaxMsgs == -1 && cfg.MaxBytes == -1 && cfg.Retention == jetstream.LimitsPolicy,
	} {
		if !ok {
			t.Errorf("%s: got %+v", name, cfg)
		}
	}
	if err := stream.Purge(t.Context()); err == nil {
		t.Error("purge: got no error, want a refusal")
	}
	if err := stream.DeleteMsg(t.Context(), 1); err == nil {
		t.Error("delete message: got no error, want a refusal")
	}
	msg, err := stream.GetMsg(t.Context(), 1)
	runtest.NoError(t, err)
	want := commit("s1", 1)
	for header, value := range map[string]string{
		"Lash-Kinds": string(events.KindSessionClosed), "Lash-Format": strconv.Itoa(events.FormatVersion), "Nats-Msg-Id": string(want.ID),
	} {
		runtest.Equal(t, fmt.Sprintf("header %s", header), msg.Header.Get(header), value)
	}
	runtest.Equal(t, "subject", msg.Subject, "lash.s.s1.session")
}

func TestSharedStreams(t *testing.T) {
	t.Parallel()
	js := jetStream(t, bustest.Start(t))
	config := func(name string) jetstream.StreamConfig {
		t.Helper()
		stream, err := js.Stream(t.Context(), name)
		runtest.NoError(t, err)
		return stream.CachedInfo().Config
	}
	work, dirty, delta := config("lash-work"), config("lash-dirty"), config("lash-delta")
	dead, timers := config("lash-dead"), config("lash-timers")
	for name, ok := range map[string]bool{
		"work":  work.Retention == jetstream.WorkQueuePolicy && work.Discard == jetstream.DiscardOld && !work.DiscardNewPerSubject && work.MaxMsgsPerSubject == 1 && work.Storage == jetstream.FileStorage,
		"dirty": dirty.Retention == jetstream.WorkQueuePolicy && dirty.Discard == jetstream.DiscardOld && dirty.MaxMsgsPerSubject == 1 && dirty.Storage == jetstream.MemoryStorage && dirty.Replicas == 1,
		"dead":  dead.Retention == jetstream.LimitsPolicy && dead.Storage == jetstream.FileStorage && dead.MaxMsgsPerSubject == 1 && dead.MaxAge == 30*24*time.Hour,
		"timers": timers.Retention == jetstream.WorkQueuePolicy && timers.Storage == jetstream.FileStorage &&
			timers.AllowMsgSchedules && timers.AllowMsgTTL && timers.Discard == jetstream.DiscardOld,
		"delta": delta.MaxAge == 10*time.Minute && delta.Storage == jetstream.MemoryStorage,
	} {
		if !ok {
			t.Errorf("%s: got %+v", name, config("lash-"+name))
		}
	}
}

// TestReplicasAreKept opens buses with different numbers of replicas: the largest applies, to shared streams and to
// those of sessions.
func TestReplicasAreKept(t *testing.T) {
	t.Parallel()
	c := bustest.StartCluster(t)
	most := 0
	for i, configured := range []int{1, 3, 1} {
		most = max(most, configured)
		b, err := bus.Open(t.Context(), bus.Config{URL: c.URL, Replicas: configured})
		runtest.NoError(t, err)
		t.Cleanup(b.Close)
		if b.Replicas() != most {
			t.Errorf("configured %d: got %d replicas, want %d", configured, b.Replicas(), most)
		}
		session := events.SessionID(fmt.Sprintf("s%d", i))
		grow(t, b.Log(), session, 1)
		shared := []string{"lash-work", "lash-dirty", "lash-archive", "lash-dead", "lash-timers", "KV_lash-sessions", "KV_lash-catalog", "KV_lash-snapshots", "KV_lash-index", "OBJ_lash-blobs"}
		js := jetStream(t, b)
		for _, name := range append(shared, "lash-s-"+string(session)) {
			stream, err := js.Stream(t.Context(), name)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := stream.CachedInfo().Config.Replicas; got != most {
				t.Errorf("configured %d: %s has %d replicas, want %d", configured, name, got, most)
			}
		}
	}
}
