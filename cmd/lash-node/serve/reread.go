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

	"github.com/lash-go/lash/cmd/internal/program"
)

// rereadEvery is the interval at which files are read. A change counts when two successive reads are equal, so that a
// partly written file is not loaded.
const rereadEvery = time.Second

// rereader loads files, and loads them again when they change. It logs a file that it cannot load, and the previous
// content stays in use.
type rereader struct {
	log  *zap.Logger
	sets []*fileSet

	cancel  context.CancelFunc
	running sync.WaitGroup
}

// fileSet are files that are loaded together, for example a certificate and its key.
type fileSet struct {
	flag  string // flag that names the files
	paths []string
	load  func(contents [][]byte) error

	tried [][]byte // last content that was loaded or refused
	last  [][]byte // content of the last read
}

// add loads files now, and, after start, again when they change.
func (r *rereader) add(flag string, load func(contents [][]byte) error, paths ...string) error {
	f := &fileSet{flag: flag, paths: paths, load: load}
	var err error
	if f.tried, err = f.read(); err == nil {
		err = load(f.tried)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	f.last = f.tried
	r.sets = append(r.sets, f)
	return nil
}

func (f *fileSet) read() ([][]byte, error) {
	var contents [][]byte
	for _, path := range f.paths {
		data, err := program.ReadFile(path, program.MaxFileBytes)
		if err != nil {
			return nil, err
		}
		contents = append(contents, data)
	}
	return contents, nil
}

// start reads the files every second, and at once on SIGHUP, until stop.
func (r *rereader) start() {
	ctx, cancel := context.WithCancel(context.Background()) // ends with stop
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
				r.poll() // a second read, as two equal ones are required
			}
			r.poll()
		}
	})
}

// stop ends the reads. It may be called without start.
func (r *rereader) stop() {
	if r.cancel != nil {
		r.cancel()
	}
	r.running.Wait()
}

func (r *rereader) poll() {
	for _, f := range r.sets {
		switch changed, err := f.poll(); {
		case err != nil:
			r.log.Error("a file is not loaded: what was loaded before stays in use", zap.String("flag", f.flag), zap.String("files", strings.Join(f.paths, " ")), zap.Error(err))
		case changed:
			r.log.Info("files are loaded again", zap.String("flag", f.flag), zap.String("files", strings.Join(f.paths, " ")))
		}
	}
}

// poll loads the content that changed and was equal in two reads. It returns each error once.
func (f *fileSet) poll() (changed bool, err error) {
	now, err := f.read()
	if err != nil {
		now = [][]byte{[]byte(err.Error())} // the error counts as the content
	}
	steady := same(now, f.last)
	f.last = now
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
