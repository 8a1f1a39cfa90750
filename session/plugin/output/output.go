// Package output paces what a running tool prints, so that neither the tool nor the people that watch it wait. It
// imports session/plugin/wire.
package output

import (
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/lash-go/lash/session/plugin/wire"
)

// maxPending is the number of bytes that wait for their time. Text beyond it is lost.
const maxPending = 4 * wire.MaxOutputBytes

// every is the time between two outputs.
const every = time.Second / wire.OutputsPerSecond

// Pacer sends printed text as outputs: [wire.OutputsPerSecond] at most, each of [wire.MaxOutputBytes] at most. It is safe
// for concurrent use.
type Pacer struct {
	send    func(wire.Output)
	sending sync.Mutex // held during send, and taken before mu

	mu      sync.Mutex
	offsets map[string]int64 // by stream: number of bytes that were printed
	pending []chunk          // in the order of printing
	lost    bool             // text after pending was lost
	bytes   int              // of pending
	seq     int64            // of the last output
	timer   *time.Timer      // nil: nothing is pending
	last    time.Time        // of the last output
	closed  bool
}

// chunk is text that waits.
type chunk struct {
	wire.Output
	after bool // follows lost text
}

// maxStreams limits the names of streams. Text of further ones belongs to the first.
const maxStreams = 8

// New makes a pacer that passes outputs to send, one at a time, from goroutines of its own and from Close. send must not
// call the pacer.
func New(send func(wire.Output)) *Pacer {
	return &Pacer{send: send, offsets: make(map[string]int64)}
}

// Add prints text after the text that the stream has. It does not wait.
func (p *Pacer) Add(stream, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addLocked(stream, p.offsets[stream], text)
}

// AddAt prints text at an offset of the stream. Where that is beyond the end, text was lost before. It returns false
// for an offset before the end, and prints nothing.
func (p *Pacer) AddAt(stream string, offset int64, text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if offset < p.offsets[stream] {
		return false
	}
	p.addLocked(stream, offset, text)
	return true
}

func (p *Pacer) addLocked(stream string, offset int64, text string) {
	if _, known := p.offsets[stream]; !known && len(p.offsets) >= maxStreams {
		return
	}
	p.lost = p.lost || offset != p.offsets[stream]
	p.offsets[stream] = offset + int64(len(text))
	kept := text[:min(len(text), maxPending-p.bytes)]
	if p.closed || kept == "" {
		p.lost = p.lost || text != ""
		return
	}
	p.bytes += len(kept)
	n := len(p.pending)
	if last := n - 1; n > 0 && !p.lost && p.pending[last].Stream == stream {
		p.pending[last].Text += kept
	} else {
		p.pending = append(p.pending, chunk{wire.Output{Stream: stream, Offset: offset, Text: kept}, p.lost})
	}
	p.lost = len(kept) < len(text)
	if p.timer == nil {
		p.timer = time.AfterFunc(max(time.Until(p.last.Add(every)), 0), p.tick)
	}
}

// tick sends an output, and has the next one sent later.
func (p *Pacer) tick() {
	p.sending.Lock()
	defer p.sending.Unlock()
	if out, ok := p.take(); ok {
		p.send(out)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = nil
	if len(p.pending) > 0 && !p.closed {
		p.timer = time.AfterFunc(every, p.tick)
	}
}

// take removes the first output.
func (p *Pacer) take() (out wire.Output, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pending) == 0 {
		return out, false
	}
	first := &p.pending[0]
	out = first.Output
	out.Text = head(first.Text)
	if p.seq++; first.after {
		p.seq++ // the missing number shows the gap
		first.after = false
	}
	out.Seq = p.seq
	p.bytes -= len(out.Text)
	first.Offset += int64(len(out.Text))
	if first.Text = first.Text[len(out.Text):]; first.Text == "" {
		p.pending = p.pending[1:]
	}
	p.last = time.Now()
	out.Text = strings.ToValidUTF8(out.Text, "?") // as many bytes at most
	return out, true
}

// head is the part of a text that fits into an output, without a broken rune at its end.
func head(text string) string {
	if len(text) <= wire.MaxOutputBytes {
		return text
	}
	end := wire.MaxOutputBytes
	for end > wire.MaxOutputBytes-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// Close sends the pending text, and prints nothing later.
func (p *Pacer) Close() {
	p.mu.Lock()
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()
	p.sending.Lock()
	defer p.sending.Unlock()
	for out, ok := p.take(); ok; out, ok = p.take() {
		p.send(out)
	}
}
