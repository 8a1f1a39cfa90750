package program

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/doc/comment"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/tailscale/hujson"
)

// tagSetting is the tag of a flag that is a setting: a file or --set gives it a value, and it is not typed.
const tagSetting = "setting"

// MaxSettings bounds a file of settings, in bytes.
const MaxSettings = 1 << 20

// ErrTooLarge means that a file of settings exceeds [MaxSettings].
var ErrTooLarge = fmt.Errorf("the file is above the limit of %d bytes", MaxSettings)

// Settings are the flags --config and --set of a command that has settings.
type Settings struct {
	Config string   `help:"File of settings and flags, as lash-node config prints it. Flags on the command line go first." placeholder:"FILE"`
	Set    []string `help:"A setting that lash-node config lists, in place of that of the file. Repeatable." placeholder:"NAME=VALUE" sep:"none"`

	Others []string `kong:"-"` // names that the file may have too: those of another program's flags
}

// BeforeResolve adds the values of the file, and of --set.
func (s *Settings) BeforeResolve(ctx *kong.Context) error {
	all := settings{others: s.Others}
	for _, p := range ctx.Path {
		if p.Flag == nil {
			continue
		}
		if p.Flag.Tag.Has(tagSetting) {
			return fmt.Errorf("--%[1]s is a setting: give --set %[1]s=VALUE, or write it into the file of --config", p.Flag.Name)
		}
		if list, ok := ctx.FlagValue(p.Flag).([]string); ok && p.Flag.Name == "set" {
			all.set = list
		}
		if path, ok := ctx.FlagValue(p.Flag).(string); ok && p.Flag.Name == "config" {
			if err := all.readFile(kong.ExpandPath(path)); err != nil {
				return err
			}
		}
	}
	ctx.AddResolver(&all)
	return nil
}

// settings are values of flags: of a file, and of --set.
type settings struct {
	from   string // names the file in errors
	file   map[string]any
	others []string // see [Settings]
	set    []string // NAME=VALUE
}

func (all *settings) readFile(path string) (err error) {
	f, err := OpenFile(path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	all.from = "--config " + path
	if all.file, err = ReadSettings(f); err != nil {
		return fmt.Errorf("%s: %w", all.from, err)
	}
	return nil
}

// ReadSettings reads a JSON object with the names of flags, and at most one byte more than [MaxSettings]. It may have comments, and commas
// behind the last of several. Errors: [ErrTooLarge].
func ReadSettings(r io.Reader) (values map[string]any, err error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxSettings+1))
	if err == nil && len(data) > MaxSettings {
		err = ErrTooLarge
	}
	if err != nil {
		return nil, err
	}
	if data, err = hujson.Standardize(data); err == nil {
		err = json.Unmarshal(data, &values)
	}
	if err != nil {
		return nil, fmt.Errorf("want a JSON object: %w", err)
	}
	return values, nil
}

// flagName is the name of a flag as a file has it: with - or with _.
func flagName(key string) string { return strings.ReplaceAll(key, "_", "-") }

// Resolve implements [kong.Resolver].
func (all *settings) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (value any, err error) {
	for key, v := range all.file {
		if flagName(key) == flag.Name {
			value = v
		}
	}
	for _, text := range all.set {
		if key, v, found := strings.Cut(text, "="); found && flagName(key) == flag.Name {
			value = v
		}
	}
	return value, nil
}

// Validate implements [kong.Resolver]. It refuses keys that name no flag of a command with settings, because a misspelt key would have no
// effect.
func (all *settings) Validate(app *kong.Application) error {
	known := make(map[string]*kong.Flag)
	for _, leaf := range append(app.Leaves(false), app.Node) {
		if !slices.ContainsFunc(leaf.Flags, func(f *kong.Flag) bool { return f.Name == "config" }) {
			continue
		}
		for _, f := range leaf.Flags {
			known[f.Name] = f
		}
	}
	delete(known, "config")
	delete(known, "set")
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(all.file)) {
		if other := strings.ReplaceAll(key, "_", "-"); other != key && all.file[other] != nil {
			errs = append(errs, fmt.Errorf("%s: %q and %q are one", all.from, other, key))
		}
		if name := flagName(key); known[name] == nil && !slices.Contains(all.others, name) {
			errs = append(errs, fmt.Errorf("%s: %q is no setting and no flag", all.from, key))
		}
	}
	given := make(map[string]bool)
	for _, text := range all.set {
		key, _, found := strings.Cut(text, "=")
		if name := flagName(key); given[name] {
			errs = append(errs, fmt.Errorf("--set %s: is given twice: a list has commas", name))
		}
		given[flagName(key)] = true
		switch f := known[flagName(key)]; {
		case !found:
			errs = append(errs, fmt.Errorf("--set %s: want NAME=VALUE", text))
		case f == nil || !f.Tag.Has(tagSetting):
			errs = append(errs, fmt.Errorf("--set: %q is no setting: lash-node config lists them", key))
		}
	}
	return errors.Join(errs...)
}

// hideSettings leaves settings out of the help of commands.
func hideSettings(k *kong.Kong) error {
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if f, ok := node.(*kong.Flag); ok && f.Tag.Has(tagSetting) {
			f.Hidden = true
		}
		return next(nil)
	})
}

// WriteSettings writes the settings of a command as a file of them, with what each is and its default, as comments.
func WriteSettings(w io.Writer, of *kong.Node) error {
	text := comment.Printer{TextPrefix: "\t// ", TextWidth: settingsWidth}
	var b strings.Builder
	b.WriteString("{\n")
	for _, f := range of.Flags {
		if f.Tag.Has(tagSetting) {
			b.Write(text.Text(new(comment.Parser).Parse(f.Help)))
			fmt.Fprintf(&b, "\t// %q: %s,\n\n", f.Name, example(f))
		}
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// settingsWidth is the length of lines of comments.
const settingsWidth = 110

// example is the default of a setting, or else its placeholder, as JSON.
func example(f *kong.Flag) string {
	text := cmp.Or(f.Default, f.PlaceHolder)
	switch {
	case f.IsBool():
		return "true"
	case f.IsSlice():
		text = strings.ReplaceAll(strconv.Quote(text), ",", `", "`)
		return "[" + text + "]"
	case json.Valid([]byte(text)):
		return text
	}
	return strconv.Quote(text)
}
