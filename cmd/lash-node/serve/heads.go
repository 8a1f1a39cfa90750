package serve

import (
	"encoding/json"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
)

// headsWaiting is the number of heads that may wait to be written.
const headsWaiting = 1024

// headWriter writes heads outside of the histories, in a goroutine of its own.
type headWriter struct {
	log     *zap.Logger
	heads   chan *proof.Head
	running sync.WaitGroup
	stopped atomic.Bool
	lost    atomic.Int64
}

// headLine is a head in a file or a message.
type headLine struct {
	Session events.SessionID `json:"session"`
	Size    events.Seq       `json:"size"` // number of commits that it covers
	Note    string           `json:"note"` // signed note
}

func (w *headWriter) start(to []func(*proof.Head, []byte) error) {
	w.running.Go(func() {
		for h := range w.heads {
			line, err := json.Marshal(headLine{h.Session, h.Size, h.Note})
			for i := 0; err == nil && i < len(to); i++ {
				err = to[i](h, append(line[:len(line):len(line)], '\n'))
			}
			if err != nil {
				w.lose(err)
			}
		}
	})
}

// send never waits.
func (w *headWriter) send(h *proof.Head) {
	if w.stopped.Load() {
		return
	}
	select {
	case w.heads <- h:
	default:
		w.lose(nil)
	}
}

func (w *headWriter) lose(err error) {
	if n := w.lost.Add(1); n&(n-1) == 0 { // each doubling
		w.log.Warn("signed heads are lost: later ones cover the same commits", zap.Int64("heads", n), zap.Error(err))
	}
}

// stop writes the waiting heads. The node has stopped, so no other follows.
func (w *headWriter) stop() {
	w.stopped.Store(true)
	close(w.heads)
	w.running.Wait()
}
