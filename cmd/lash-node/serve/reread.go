package serve

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// rereadEvery is the time between two looks at files. A change counts when two
// looks found the same, so that a file that is being written is not taken for a whole one.
const rereadEvery = time.Second

// rereader loads files, and loads them again when they change. What it cannot
// load it logs, and what was loaded before stays in use.
type rereader struct {
	log  *zap.Logger
	sets []*fileSet

	cancel  context.CancelFunc
	running sync.WaitGroup
}

// fileSet are files that are loaded together, as a certificate and its key are.
type fileSet struct {
	flag  string // that names them
	paths []string
	load  func(contents [][]byte) error

	tried [][]byte // loaded last, or refused
	seen  [][]byte // at the last look
}

// add loads files now, and again when they change after start.
func (r *rereader) add(flag string, load func(contents [][]byte) error, paths ...string) error {
	f := &fileSet{flag: flag, paths: paths, load: load}
	var err error
	if f.tried, err = f.read(); err == nil {
		err = load(f.tried)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	f.seen = f.tried
	r.sets = append(r.sets, f)
	return nil
}

func (f *fileSet) read() ([][]byte, error) {
	var contents [][]byte
	for _, path := range f.paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		contents = append(contents, data)
	}
	return contents, nil
}

// start looks at the files every second, and at once on SIGHUP, until stop.
func (r *rereader) start() {
	ctx, cancel := context.WithCancel(context.Background()) // of the looks, ends with stop
	r.cancel = cancel
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	r.running.Go(func() {
		defer signal.Stop(hangup)
		tick := time.NewTicker(rereadEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			case <-hangup:
				r.look() // and once more, for two that are the same
			}
			r.look()
		}
	})
}

// stop ends the looks. It may come without start.
func (r *rereader) stop() {
	if r.cancel != nil {
		r.cancel()
	}
	r.running.Wait()
}

func (r *rereader) look() {
	for _, f := range r.sets {
		switch changed, err := f.look(); {
		case err != nil:
			r.log.Error("a file is not loaded: what was loaded before stays in use", zap.String("flag", f.flag), zap.String("files", strings.Join(f.paths, " ")), zap.Error(err))
		case changed:
			r.log.Info("files are loaded again", zap.String("flag", f.flag), zap.String("files", strings.Join(f.paths, " ")))
		}
	}
}

// look loads what changed and stands still. A fault is returned once.
func (f *fileSet) look() (changed bool, err error) {
	now, err := f.read()
	if err != nil {
		now = [][]byte{[]byte(err.Error())} // as if that were the content
	}
	steady := same(now, f.seen)
	f.seen = now
	if !steady || same(now, f.tried) {
		return false, nil
	}
	f.tried = now
	if err != nil {
		return false, err
	}
	return true, f.load(now)
}

func same(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }
