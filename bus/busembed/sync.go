package busembed

import (
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// syncEvery is what a power cut may lose under [ProfileInterval].
	syncEvery = 100 * time.Millisecond
	// syncCluster is the interval in a cluster: the other servers have what one lost.
	syncCluster = 10 * time.Second
	// syncBackstop is the interval of the server's own sync where another sync makes writes durable.
	syncBackstop = 2 * time.Minute
)

// syncInterval is how often the server itself syncs. It opens and syncs a file of each stream (nats-server 2.15.2),
// written or not: with a thousand hot sessions that takes longer than the 100 ms of [ProfileInterval].
func (c Config) syncInterval() time.Duration {
	switch {
	case c.Profile == ProfileAlways || c.syncsFilesystem():
		return syncBackstop
	case c.clustered():
		return syncCluster
	}
	return syncEvery
}

func (c Config) clustered() bool { return c.Profile == ProfileCluster || len(c.Routes) > 0 }

func (c Config) syncsFilesystem() bool {
	return canSyncFilesystem && c.Profile != ProfileAlways && !c.clustered()
}

// syncer syncs the store's filesystem, in one call for all streams, when the server has received messages since the
// last sync.
type syncer struct {
	store    *filesystem
	ns       *server.Server
	stopping chan struct{}
	once     sync.Once
	wait     sync.WaitGroup
}

func startSyncer(dir string, ns *server.Server) (*syncer, error) {
	store, err := openFilesystem(dir)
	if err != nil {
		return nil, err
	}
	s := &syncer{store: store, ns: ns, stopping: make(chan struct{})}
	s.wait.Go(s.loop)
	return s, nil
}

func (s *syncer) loop() {
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for p := (syncSchedule{}); ; {
		select {
		case <-s.stopping:
			return
		case <-tick.C:
		}
		took, err := s.received()
		if err == nil && p.due(took) {
			err = s.store.sync()
		}
		if err != nil {
			s.ns.Shutdown() // later acks may not be on the disk
			return
		}
	}
}

// syncSchedule decides whether a sync is due. A message is counted before it is written, so one more sync follows the
// last message.
type syncSchedule struct {
	took  int64
	again bool
}

func (p *syncSchedule) due(took int64) bool {
	moved := took != p.took
	due := moved || p.again
	p.took, p.again = took, moved
	return due
}

// received counts the messages that the server has received.
func (s *syncer) received() (int64, error) {
	v, err := s.ns.Varz(nil)
	if err != nil {
		return 0, err
	}
	return v.InMsgs, nil
}

// stop syncs once more, after the server has ended. A second call has no effect.
func (s *syncer) stop() {
	s.once.Do(func() { close(s.stopping) })
	s.wait.Wait()
	_ = s.store.sync()
	s.store.close()
}
