package program

import (
	"sync"
	"time"

	"github.com/charmbracelet/x/term"
)

// OnTerminal reports whether the output is for a terminal.
func (s *Streams) OnTerminal() bool { return s.Screen != nil && term.IsTerminal(s.Screen.Fd()) }

// Count is how many of the parts of a long work are done. It prints that, as [Streams.Waiting] prints what is waited for. It is
// safe for concurrent use.
type Count struct {
	s          *Streams
	verb, noun string
	of         int

	mu    sync.Mutex
	done  int
	timer *time.Timer // nil: nothing is printed
}

// Counts begins a work of so many parts. Where the output is for a terminal, it prints after two seconds, and every ten from
// then on, how many are done. quiet: it prints nothing, for a command with --json. The caller must call [Count.Stop].
func (s *Streams) Counts(quiet bool, verb string, of int, noun string) *Count {
	c := &Count{s: s, verb: verb, noun: noun, of: of}
	if !quiet && of > 1 && s.OnTerminal() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.timer = time.AfterFunc(patience, c.print)
	}
	return c
}

func (c *Count) print() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil {
		return
	}
	c.s.Printf("%s %d of %s", c.verb, c.done, Number(int64(c.of), c.noun))
	c.timer.Reset(repeatEvery)
}

// Add counts a part that is done.
func (c *Count) Add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done++
}

// Stop ends the output.
func (c *Count) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}
