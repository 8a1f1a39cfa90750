package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/lock"
	"github.com/lash-go/lash/session/plugin"
)

// environmentJSON is an execution environment in the file of the setting environments.
type environmentJSON struct {
	Directory string            `json:"directory"`
	Variables map[string]string `json:"variables"`
	ByCall    bool              `json:"by_call"`
	Timeout   string            `json:"timeout"`
	MaxTime   string            `json:"max_timeout"`
	MaxOutput int               `json:"max_output_bytes"`
	MaxCPU    string            `json:"max_cpu_time"`
	MaxMemory int64             `json:"max_memory_bytes"`
	CodeTime  string            `json:"code_timeout"`
}

// environments are where commands and programs of sessions run. The directory of the default one is --root.
func (f *PluginFlags) environments() (plugin.Environments, error) {
	all := plugin.Environments{events.DefaultEnvironment: {Dir: f.Root, Timeout: f.CommandTimeout}}
	if f.Environments == "" {
		return all, nil
	}
	data, err := program.ReadFile(f.Environments, program.MaxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("setting environments: %w", err)
	}
	var file struct {
		Environments map[string]environmentJSON `json:"environments"`
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err = d.Decode(&file); err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more behind the object")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("setting environments %s: want {\"environments\": {NAME: {...}}}: %w", f.Environments, err)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(file.Environments)) {
		e, err := file.Environments[name].checked(name, f)
		if err != nil {
			errs = append(errs, fmt.Errorf("setting environments %s: %q: %w", f.Environments, name, err))
		}
		all[name] = e
	}
	return all, errors.Join(errs...)
}

func (in environmentJSON) checked(name string, f *PluginFlags) (plugin.Environment, error) {
	e := plugin.Environment{Dir: in.Directory, Variables: in.Variables, ByCall: in.ByCall, MaxOutput: in.MaxOutput, Memory: in.MaxMemory}
	errs := []error{events.CheckToken("name", name)}
	switch {
	case name == events.DefaultEnvironment && in.Directory != "":
		errs = append(errs, errors.New("directory: is that of --root; leave it out"))
	case name == events.DefaultEnvironment:
		e.Dir = f.Root
	case !filepath.IsAbs(in.Directory):
		errs = append(errs, fmt.Errorf("directory: is %q, want an absolute path", in.Directory))
	default:
		if info, err := os.Stat(in.Directory); err != nil {
			errs = append(errs, fmt.Errorf("directory: %w", err))
		} else if !info.IsDir() {
			errs = append(errs, fmt.Errorf("directory: %s is no directory", in.Directory))
		}
	}
	for name, value := range in.Variables {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			errs = append(errs, fmt.Errorf("variables: %q is no variable", name))
		}
	}
	if in.MaxOutput < 0 {
		errs = append(errs, errors.New("max_output_bytes: is negative"))
	}
	seconds, data, err := hardLimits()
	switch errs = append(errs, err); {
	case in.MaxMemory < 0:
		errs = append(errs, errors.New("max_memory_bytes: is negative"))
	case (uint64(in.MaxMemory)+1023)>>10 > data>>10: // commands set it in KiB
		errs = append(errs, fmt.Errorf("max_memory_bytes: is %d, limit of this process is %d (ulimit -Hd, LimitDATA)", in.MaxMemory, data))
	}
	for _, limit := range []struct {
		field, text string
		into        *time.Duration
	}{{"timeout", in.Timeout, &e.Timeout}, {"max_timeout", in.MaxTime, &e.MaxTime}, {"max_cpu_time", in.MaxCPU, &e.CPU}, {"code_timeout", in.CodeTime, &e.CodeTime}} {
		if limit.text == "" {
			continue
		}
		d, err := time.ParseDuration(limit.text)
		if *limit.into = d; err != nil || d <= 0 {
			errs = append(errs, fmt.Errorf("%s: is %q, want a time as 2m or 90s", limit.field, limit.text))
		}
	}
	if e.CPU > 0 && e.CPU.Seconds()+1 > float64(seconds) { // as commands set it
		errs = append(errs, fmt.Errorf("max_cpu_time: is %s, and a second more for its end; limit of this process is %ds (ulimit -Ht, LimitCPU)", e.CPU, seconds))
	}
	e.Timeout = cmp.Or(e.Timeout, f.CommandTimeout)
	return e, errors.Join(errs...)
}

// checkByCall refuses an environment that calls may name and sessions may not.
func checkByCall(all plugin.Environments, locks *lock.Locks) error {
	for _, name := range all.Names() {
		if all[name].ByCall {
			if err := locks.Environment("by_call of "+name, name); err != nil {
				return fmt.Errorf("setting environments: %w", err)
			}
		}
	}
	return nil
}
