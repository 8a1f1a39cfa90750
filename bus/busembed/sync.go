package busembed

import (
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// syncEvery is what a power cut may cost under [ProfileInterval].
	syncEvery = 100 * time.Millisecond
	// syncCluster is the same for one server of a cluster, whose others have what it lost.
	syncCluster = 10 * time.Second
	// syncSeldom is for servers that are synced otherwise.
	syncSeldom = 2 * time.Minute
)

// syncInterval is how often the server itself syncs. It goes from stream to
// stream, and opens and syncs a file of each (nats-server 2.15.2), written or
// not: with a thousand hot sessions and ten times a second it does nothing else.
func (c Config) syncInterval() time.Duration {
	switch {
	case c.Profile == ProfileAlways || c.syncsFilesystem():
		return syncSeldom
	case c.clustered():
		return syncCluster
	}
	return syncEvery
}

func (c Config) clustered() bool { return c.Profile == ProfileCluster || len(c.Routes) > 0 }

func (c Config) syncsFilesystem() bool {
	return canSyncFilesystem && c.Profile != ProfileAlways && !c.clustered()
}

// syncer syncs the store's filesystem, in one call for all streams, whenever
// the server took messages since the last time.
type syncer struct {
	store *filesystem
	ns    *server.Server
	ended chan struct{}
	once  sync.Once
	wait  sync.WaitGroup
}

func startSyncer(dir string, ns *server.Server) (*syncer, error) {
	store, err := openFilesystem(dir)
	if err != nil {
		return nil, err
	}
	s := &syncer{store: store, ns: ns, ended: make(chan struct{})}
	s.wait.Go(s.loop)
	return s, nil
}

func (s *syncer) loop() {
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for p := (pace{}); ; {
		select {
		case <-s.ended:
			return
		case <-tick.C:
		}
		took, err := s.took()
		if err == nil && p.due(took) {
			err = s.store.sync()
		}
		if err != nil {
			s.ns.Shutdown() // what it acknowledges from here on may not be on the disk
			return
		}
	}
}

// pace says when there is something to sync. A message is counted before it is
// written, so that the one look after the last message syncs once more.
type pace struct {
	took  int64
	again bool
}

func (p *pace) due(took int64) bool {
	moved := took != p.took
	due := moved || p.again
	p.took, p.again = took, moved
	return due
}

// took counts the messages that came to the server.
func (s *syncer) took() (int64, error) {
	v, err := s.ns.Varz(nil)
	if err != nil {
		return 0, err
	}
	return v.InMsgs, nil
}

// stop syncs once more, after the server has ended. A second call does nothing.
func (s *syncer) stop() {
	s.once.Do(func() { close(s.ended) })
	s.wait.Wait()
	_ = s.store.sync()
	s.store.close()
}
