package external

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin/wire"
)

// gate is a connection's way to the server, which can be closed: what is sent then arrives when it opens.
type gate struct {
	listener net.Listener
	open     sync.RWMutex // locked while it is closed
}

func openGate(t *testing.T, server string) *gate {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	runtest.WantError(t, "listen", err, nil)
	g := &gate{listener: listener}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", strings.TrimPrefix(server, "nats://"))
			if err != nil {
				t.Error(err)
				_ = from.Close()
				return
			}
			all.Go(func() { g.carry(from, to) })
			all.Go(func() { g.carry(to, from) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		all.Wait()
	})
	return g
}

func (g *gate) carry(from, to net.Conn) {
	defer to.Close() //nolint:errcheck // its reader sees the end
	data := make([]byte, 64<<10)
	for {
		n, err := from.Read(data)
		g.open.RLock()
		_, failed := to.Write(data[:n])
		g.open.RUnlock()
		if errors.Join(err, failed) != nil {
			_, _ = io.Copy(io.Discard, from)
			return
		}
	}
}

// TestSilenceOfTheNode cuts the node off for longer than the lease while a call runs. Its own silence is not the death
// of the instance: the call has its result, and a call right afterwards finds the instance.
func TestSilenceOfTheNode(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"write", "look"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			s := oneServer(t).start(t, append(calling(tool, `{"text":"milk","hold":true}`), calling("look", `{"text":"bread"}`)...)...)
			g := openGate(t, s.on.url)
			through := s.on
			through.url = "nats://" + g.listener.Addr().String()
			on := through.open(t)
			p := s.plugins(on)
			n, _ := s.StartNodeOn(on, p.Factories()...)
			s.Host = n.Host()
			s.program("i1")
			id := s.begin()
			s.logged("began", 1)
			g.open.Lock()
			s.release()
			s.logged("ended", 1)
			cut := time.Now()
			s.AwaitPolling("longer than the lease", func() bool { return time.Since(cut) > wire.Lease+2*time.Second })
			g.open.Unlock()
			s.AwaitTurn(id, "t1")
			runtest.Equal(t, "result", s.CallResult(id, "k"), "noted: milk")
			s.RunTurn(id, "t2", harness.Text("again"))
			runtest.DeepEqual(t, "runs", s.began(), 2)
		})
	}
}
