package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/localfile"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/session/exchange"
	"github.com/lash-go/lash/workers/playback"
	"github.com/lash-go/lash/workers/recording"
)

type importCmd struct {
	Files []string `arg:"" name:"file" help:"Archives of lash-replay export, chats in OpenAI's format (one JSON object a line), session files of pi, transcripts of Claude Code, rollouts of Codex, items of the Responses API, or records of lash-replay export --format record (JSON, CBOR, COSE_Sign1 of which the signature is not verified), told apart by content." type:"path"`
	clientFlags

	MaxMiB int64 `name:"max-mib" default:"1024" placeholder:"N" help:"Refuse an archive whose content is larger, in MiB: it is read into memory. Default: ${default}."`
	Resume bool  `name:"resume" help:"Also import archives of sessions with work left: turns, tasks and monitors. A node continues it at once, and runs the commands and calls in it: only for archives of your own."`
	JSON   bool  `name:"json" help:"Print one JSON object."`
}

// Help is shown by --help.
func (*importCmd) Help() string {
	return `Puts sessions into a server: that of a running node, of --nats URL, or of a --store DIR that no node uses.

An archive becomes the same session, with the same id and the same commits. All others are played through the
runtime, on a temporary server with a scripted model, and their history is put in; the session has the recorded id. The answer counts
what the file has and the history does not.

All files are read and checked before anything is written: a bad line, and a file without a message, is an error with file, line and reason. Bad lines
within a transcript of another program are counted. A session
appears at once and whole. A session that is there with the same content is left alone, so an import that was stopped is
simply repeated. Imported sessions are cold, and nothing of them runs before the next request: an archive of a session that
has turns, tasks or monitors left is refused without --resume.`
}

// imported is one session of an import.
type imported struct {
	File    string           `json:"file"`
	Line    int              `json:"line,omitempty"` // of a recording
	Session events.SessionID `json:"session"`
	Format  string           `json:"format"` // "archive", or a [recording.Format]
	Last    events.Seq       `json:"last"`
	Said    string           `json:"said,omitempty"`    // the end of a recording
	Lost    map[string]int   `json:"lost,omitempty"`    // what a recording has and the session does not
	Already bool             `json:"already,omitempty"` // it was there before
}

// importSource is a session to import: an archive, or a plan of a recording.
type importSource struct {
	imported
	archive *events.Archive
	plan    *playback.Plan
}

// Run imports the files.
func (c *importCmd) Run(ctx context.Context, s *streams) error {
	sources, err := c.read()
	if err != nil {
		return err
	}
	list := []imported{}
	err = c.onBus(ctx, s, func(ctx context.Context, b *bus.Bus) error {
		x := &importer{b: b, resume: c.Resume, progress: func(n int) { s.Printf("session %d of %d", n, len(sources)) }}
		defer x.close()
		for i := range sources {
			one, err := x.put(ctx, &sources[i], i)
			if err != nil {
				return fmt.Errorf("%s: %w", sources[i].File, err)
			}
			list = append(list, one)
			if !c.JSON {
				write(s.Out, "%s\n", one.text())
			}
		}
		return nil
	})
	if c.JSON && err == nil {
		return writeJSON(s, struct {
			Sessions []imported `json:"sessions"`
		}{list})
	}
	return err
}

func (i imported) text() string {
	if i.Already {
		return fmt.Sprintf("%s: session %s is there already", i.File, i.Session)
	}
	text := fmt.Sprintf("%s: session %s, %s, from %s", i.File, i.Session, program.Number(int64(i.Last), "commit"), i.Format)
	if i.Said != "" {
		text += fmt.Sprintf(", the last words: %q", i.Said)
	}
	if len(i.Lost) > 0 {
		text += "; not kept: " + recording.LostText(i.Lost)
	}
	return text
}

// read reads all files before anything is written.
func (c *importCmd) read() ([]importSource, error) {
	var list []importSource
	var convs []recording.Conversation
	for _, name := range c.Files {
		a, more, err := c.readFile(name)
		if err != nil {
			return nil, fmt.Errorf("%w: lash-node import --help lists the formats of files", err)
		}
		if a != nil {
			list = append(list, importSource{imported: imported{File: name, Session: a.Session, Format: "archive"}, archive: a})
		}
		convs = append(convs, more...)
	}
	for _, plan := range plansOf(convs) {
		list = append(list, importSource{plan: plan, imported: imported{
			File: plan.Conv.File, Line: plan.Conv.Line, Session: plan.Session, Format: string(plan.Conv.Format),
			Said: plan.Conv.Said(), Lost: plan.Conv.Lost,
		}})
	}
	seen := make(map[events.SessionID]string)
	for i := range list {
		if other, twice := seen[list[i].Session]; twice {
			return nil, fmt.Errorf("%s: session %s is in %s too: give lash-node import one of them", list[i].File, list[i].Session, other)
		}
		seen[list[i].Session] = list[i].File
	}
	return list, nil
}

func (c *importCmd) readFile(name string) (*events.Archive, []recording.Conversation, error) {
	f, err := localfile.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	whole, isArchive, err := events.PeekArchive(f)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err) // for example a folder
	}
	if !isArchive {
		convs, err := readRecording(name, whole)
		return nil, convs, err
	}
	a, err := events.ReadArchive(whole, min(c.MaxMiB, 1<<40)<<20)
	if errors.Is(err, events.ErrTooLarge) {
		return nil, nil, fmt.Errorf("%s: %w: --max-mib allows more", name, err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return a, nil, nil
}

// readRecording reads a record in CBOR, or lines of JSON.
func readRecording(name string, r io.Reader) ([]recording.Conversation, error) {
	whole := bufio.NewReader(r)
	begin, err := whole.Peek(len(byteOrderMark))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(begin) > 0 && begin[0] >= firstCBOR && string(begin) != byteOrderMark {
		return readRecord(name, whole)
	}
	return recording.Read(name, whole)
}

// A record in CBOR begins with a map or a tag. No text in UTF-8 begins with these bytes but that with a byte order mark.
const (
	firstCBOR     = 0xa0
	byteOrderMark = "\xef\xbb\xbf"
	maxRecord     = 256 << 20 // bytes
)

// readRecord reads a record in CBOR, signed or not.
func readRecord(name string, r io.Reader) ([]recording.Conversation, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxRecord+1))
	if err == nil && len(data) > maxRecord {
		err = fmt.Errorf("has more than %d bytes", maxRecord)
	}
	if err == nil {
		data, err = exchange.RecordLine(data)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return recording.Read(name, bytes.NewReader(data))
}

// onBus calls do with the servers of a running node, or with one on the store if no node uses it.
func (c *importCmd) onBus(ctx context.Context, s *streams, do func(context.Context, *bus.Bus) error) error {
	if c.NATS == "" {
		server, err := busembed.Start(busembed.Config{StoreDir: c.Store})
		if err == nil {
			defer server.Stop()
			keys, err := c.BodiesKeys()
			if err != nil {
				return err
			}
			b, err := bus.Open(ctx, bus.Config{Options: []nats.Option{server.InProcess()}, Name: "lash-node", Prefix: c.Prefix, Keys: keys})
			if err != nil {
				return err
			}
			defer b.Close()
			return do(ctx, b)
		}
		if !errors.Is(err, busembed.ErrInUse) {
			return fmt.Errorf("--store %s: %w", c.Store, err)
		}
	}
	return c.with(ctx, s, func(ctx context.Context, on *client) error { return do(ctx, on.bus) })
}

// importer puts sessions into a server.
type importer struct {
	b        *bus.Bus
	resume   bool            // sessions with work left, too
	stage    *playback.Stage // started for the first recording
	progress func(n int)
	printed  time.Time
}

func (x *importer) close() {
	if x.stage != nil {
		x.stage.Close()
	}
}

// importEvery is the interval of progress lines.
const importEvery = 2 * time.Second

func (x *importer) put(ctx context.Context, src *importSource, n int) (imported, error) {
	if x.printed.IsZero() {
		x.printed = time.Now()
	} else if time.Since(x.printed) > importEvery {
		x.printed = time.Now()
		x.progress(n + 1)
	}
	one := src.imported
	if src.plan != nil {
		there, err := x.compare(ctx, src.plan)
		if err != nil || there > 0 {
			one.Last, one.Already = there, true
			return one, err
		}
		if src.archive, err = x.convert(ctx, src.plan); err != nil {
			return one, err
		}
	}
	restore := archive.RestoreIdle
	if x.resume || src.plan != nil { // this program made the history of a plan
		restore = archive.Restore
	}
	done, err := restore(ctx, x.b, src.archive)
	one.Last, one.Already = done.Last, done.Already
	if errors.As(err, new(*archive.WorkError)) {
		err = fmt.Errorf("%w: --resume imports it, if you trust the archive", err)
	}
	return one, err
}

func (x *importer) convert(ctx context.Context, plan *playback.Plan) (a *events.Archive, err error) {
	if x.stage == nil {
		if x.stage, err = playback.Open(ctx, playback.StageConfig{Keys: x.b.Keys()}); err != nil {
			x.stage = nil
			return nil, err
		}
	}
	return x.stage.Convert(ctx, plan)
}

// compare compares a recording with the session of its name. There is none: 0. Otherwise it is the session's last sequence.
func (x *importer) compare(ctx context.Context, plan *playback.Plan) (events.Seq, error) {
	s, err := follow.Whole(ctx, x.b, plan.Session)
	if errors.Is(err, events.ErrNoSession) && !errors.As(err, new(*events.ErasedError)) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	diff, err := playback.Compare(ctx, x.b, plan, s)
	if err == nil && diff != nil {
		err = fmt.Errorf("session %s exists, and is not this recording: %w", plan.Session, diff)
	}
	return s.Seq, err
}
