package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.starlark.net/starlark"
)

// Limits of one run. Zero fields have their defaults.
type Limits struct {
	Steps       uint64        // of the interpreter; bulk operations cost one for each element. Defaults to 5 million
	MemoryBytes int64         // allocated by bulk operations, freed or not. Defaults to 128 MiB
	Code        int64         // bytes of the code. Defaults to 64 KiB
	Output      int64         // bytes of the printed text in the response. Defaults to 16 KiB
	Timeout     time.Duration // of the program, without the time of tools. Defaults to 10 s
	Calls       int           // of tools, started ones included. Defaults to 100
	StateBytes  int64         // bytes of the encoded variables. Defaults to 1 MiB
}

func (l Limits) withDefaults() Limits {
	set := func(v *int64, def int64) {
		if *v <= 0 {
			*v = def
		}
	}
	l.Steps = cmp.Or(l.Steps, 5_000_000)
	set(&l.MemoryBytes, 128<<20)
	set(&l.Code, 64<<10)
	set(&l.Output, 16<<10)
	set(&l.StateBytes, 1<<20)
	l.Timeout = cmp.Or(max(l.Timeout, 0), 10*time.Second)
	l.Calls = cmp.Or(max(l.Calls, 0), 100)
	return l
}

// Fixed limits.
const (
	maxNesting       = 100     // levels of a value that is printed, compared, hashed, sent or saved
	maxSyntax        = 400     // levels of the syntax tree
	maxBrackets      = 100     // open at once in the code
	maxIntBits       = 1 << 16 // of an integer from a product, a shift or a text
	maxIntDigits     = 20_000  // of an integer's text
	maxVariables     = 1000    // kept between runs
	maxTask          = 16_000  // bytes of the task of continue_as
	maxWaits         = 1000    // for handles, in one program
	maxMessages      = 200     // of one program
	maxShown         = 16      // attachments of one program
	machineWordBytes = 16      // of an element of a list
)

// slack is the time after Limits.Timeout at which [Run] returns at the latest.
const slack = time.Second

// limitError ends the program, which cannot catch it.
type limitError struct{ message string }

func (e *limitError) Error() string { return e.message }

// meter counts the use of a run. Only the program's goroutine calls it.
type meter struct {
	limits  Limits
	thread  *starlark.Thread
	memory  int64 // bytes charged so far
	stopped error // the first limit that was exceeded
	clock   clock
}

func (m *meter) stop(format string, args ...any) error {
	if m.stopped == nil {
		m.stopped = &limitError{message: fmt.Sprintf(format, args...)}
	}
	return m.stopped
}

func (m *meter) stopSteps() error {
	return m.stop("the program did too much work (limit %d steps); do less in one program, or look at less data", m.limits.Steps)
}

// spend charges steps for work that the interpreter does in one step.
func (m *meter) spend(n int64) error {
	switch {
	case m.stopped != nil:
		return m.stopped
	case m.clock.expired.Load():
		return errExpired
	case n < 0 || m.thread.Steps >= m.limits.Steps || uint64(n) >= m.limits.Steps-m.thread.Steps:
		return m.stopSteps()
	}
	m.thread.Steps += uint64(n)
	return nil
}

// left is the number of remaining steps.
func (m *meter) left() int64 {
	if m.stopped != nil || m.thread.Steps >= m.limits.Steps {
		return 0
	}
	return int64(min(m.limits.Steps-m.thread.Steps, math.MaxInt64))
}

// fits reports whether bytes may be allocated, without a charge.
func (m *meter) fits(bytes int64) error {
	if m.stopped != nil {
		return m.stopped
	}
	if bytes < 0 || bytes > m.limits.MemoryBytes-m.memory {
		return m.stop("the program used too much memory (limit %d bytes in all); keep less, or join lists of strings instead of adding strings up", m.limits.MemoryBytes)
	}
	return nil
}

// alloc charges bytes before they are allocated.
func (m *meter) alloc(bytes int64) error {
	if err := m.fits(bytes); err != nil {
		return err
	}
	m.memory += bytes
	return nil
}

// times multiplies sizes without overflow; sizes are not negative.
func times(a, b int64) int64 {
	if a != 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}

func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// clock runs with the program and is paused while a tool runs.
type clock struct {
	mu      sync.Mutex
	timer   *time.Timer
	left    time.Duration
	since   time.Time
	paused  bool
	expired atomic.Bool
	overdue chan struct{} // closed when a step still runs slack after the clock expired
}

// errExpired ends the program; run replaces it with the error for the model.
var errExpired = errors.New("the time is up")

func (c *clock) start(thread *starlark.Thread, timeout time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.since = timeout, time.Now()
	c.timer = time.AfterFunc(timeout, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.paused { // resume starts it again
			return
		}
		c.expired.Store(true)
		thread.Cancel("timeout")
		c.timer = time.AfterFunc(slack, func() { close(c.overdue) })
	})
}

// pause stops the clock while a tool runs. After the clock has expired it is an error: no tool may run.
func (c *clock) pause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expired.Load() {
		return errExpired
	}
	c.timer.Stop()
	c.paused, c.left = true, c.left-time.Since(c.since)
	return nil
}

func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused, c.since = false, time.Now()
	c.timer.Reset(max(c.left, 0))
}

// weight is the size of a value as a tree; a shared part counts at each occurrence.
type weight struct {
	nodes int64
	bytes int64 // upper bound of the bytes of its text
}

// weigh walks a value and charges a step for each node. It fails if the steps do not suffice or the value nests too
// deeply. An accepted
// value is safe to print, compare, hash or encode in one step.
func (m *meter) weigh(v starlark.Value) (weight, error) {
	if m.stopped != nil {
		return weight{}, m.stopped
	}
	var w weight
	limit := m.left()
	var walk func(v starlark.Value, depth int) error
	walk = func(v starlark.Value, depth int) error {
		if depth > maxNesting {
			return fmt.Errorf("the value nests deeper than %d levels or contains itself", maxNesting)
		}
		w.nodes++
		w.bytes += 2
		switch v := v.(type) {
		case starlark.String:
			w.nodes += int64(len(v) / 64)
			w.bytes += quoted(string(v))
		case starlark.Bytes:
			w.nodes += int64(len(v) / 64)
			w.bytes += 4 * int64(len(v))
		case starlark.Int:
			bits := intBits(v)
			w.nodes += bits / 1024
			w.bytes += bits/3 + 2
		case *starlark.List:
			w.bytes += 2 * int64(v.Len())
			for elem := range v.Elements() {
				if err := walk(elem, depth+1); err != nil {
					return err
				}
			}
		case starlark.Tuple:
			w.bytes += 2*int64(len(v)) + 1
			for _, elem := range v {
				if err := walk(elem, depth+1); err != nil {
					return err
				}
			}
		case *starlark.Set:
			if err := m.compared(v); err != nil {
				return err
			}
			w.bytes += 2*int64(v.Len()) + 8
			for elem := range v.Elements() {
				if err := walk(elem, depth+1); err != nil {
					return err
				}
			}
		case *starlark.Dict:
			if err := m.compared(v); err != nil {
				return err
			}
			w.bytes += 4 * int64(v.Len())
			for key, value := range v.Entries() {
				if err := walk(key, depth+1); err != nil {
					return err
				}
				if err := walk(value, depth+1); err != nil {
					return err
				}
			}
		case *outcome:
			w.bytes += 64 + quoted(v.message)
			return walk(v.value, depth+1)
		case handle:
			w.bytes += 64 + quoted(v.id) + quoted(v.tool)
		case *pending:
			w.bytes += 64 + int64(len(v.tool))
		default: // of fixed size, or printed as their type
			w.bytes += 64
			if f, ok := v.(*starlark.Function); ok {
				w.bytes += int64(len(f.Name()))
			}
			if s, ok := v.(fmt.Stringer); ok && starlark.Len(v) > 0 && v.Type() != "range" {
				// Views of a text: the text is part of what they print as.
				w.bytes += 8 * int64(starlark.Len(s.(starlark.Value)))
			}
		}
		if w.nodes > limit {
			return m.stopSteps()
		}
		return nil
	}
	if err := walk(v, 0); err != nil {
		if m.stopped == nil {
			_ = m.spend(min(w.nodes, m.left()-1)) // the walk is charged also after an error
		}
		return w, err
	}
	return w, m.spend(w.nodes)
}

// quoted is an upper bound of the size of a text that the interpreter quotes.
func quoted(s string) int64 {
	n := int64(2)
	for i := range len(s) {
		switch c := s[i]; {
		case c < 0x20 || c >= 0x7f:
			n += 4
		case c == '"' || c == '\\':
			n += 2
		default:
			n++
		}
	}
	return n
}

func intBits(i starlark.Int) int64 {
	if _, ok := i.Int64(); ok {
		return 64
	}
	return int64(i.BigInt().BitLen())
}

// count is the number of elements of v. Values of unknown length are iterated, as far as the steps suffice.
func (m *meter) count(v starlark.Value) (int64, error) {
	if _, ok := v.(starlark.Iterable); !ok {
		return 0, nil // the operation itself reports the error
	}
	if n := starlark.Len(v); n >= 0 {
		return int64(n), nil
	}
	iter := starlark.Iterate(v)
	defer iter.Done()
	var n int64
	var elem starlark.Value
	for limit := m.left(); iter.Next(&elem); {
		if n++; n > limit {
			return 0, m.stopSteps()
		}
	}
	return n, nil
}

// key makes sure that v is hashed in bounded time: of the hashable values only tuples nest.
func (m *meter) key(v starlark.Value) error {
	if t, ok := v.(starlark.Tuple); ok {
		_, err := m.weigh(t)
		return err
	}
	if n := bytesOf(v); n > crowded {
		return m.spend(n / 64)
	}
	return nil
}

// keys is key for all elements of a future set, or all keys of a dict.
func (m *meter) keys(v starlark.Value) error {
	iter := starlark.Iterate(v)
	if iter == nil {
		return nil
	}
	defer iter.Done()
	var elem starlark.Value
	for limit := m.left(); iter.Next(&elem); {
		if limit--; limit < 0 {
			return m.stopSteps()
		}
		if err := m.key(elem); err != nil {
			return err
		}
	}
	return nil
}
