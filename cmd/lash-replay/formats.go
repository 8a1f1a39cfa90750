package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"

	"github.com/lash-go/lash/session/exchange"
)

// formatArchive is the format of archives, which hold all of a history.
const formatArchive = "archive"

// format is a format of export.
type format struct {
	extension string
	write     func(io.Writer, *exchange.Document) (*exchange.Losses, error)
}

// formats are the formats of export, by name.
func formats() map[string]format {
	return map[string]format{
		formatArchive: {extension: "lash"},
		"chat":        {"jsonl", exchange.Chat},
		"pi":          {"pi.jsonl", exchange.Pi},
		"markdown":    {"md", exchange.Markdown},
		"html":        {"html", exchange.HTML},
	}
}

// document writes the session's conversation in another format.
func (w *written) document(ctx context.Context, src source, temp *os.File) error {
	d, err := exchange.Read(ctx, src.Log(), src, w.Session)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(temp)
	lost, err := formats()[w.Format].write(out, d)
	if err != nil {
		return err
	}
	size := int64(0)
	if err = errors.Join(out.Flush(), temp.Sync()); err == nil {
		var info os.FileInfo
		if info, err = temp.Stat(); err == nil {
			size = info.Size()
		}
	}
	w.Lost, w.Bytes, w.First, w.Last, w.Commits = lost.List(), size, 1, d.Commits, int64(d.Commits)
	w.Events = int64(len(d.Entries))
	return errors.Join(err, temp.Close())
}
