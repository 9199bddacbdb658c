package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// unmapStart gives back the pages of the program that only its start needed: half of
// what an idle gateway would hold. They stay in the system's page cache, and one
// that is wanted again is mapped again, which costs a microsecond.
func unmapStart() error {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("find the program: %w", err)
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("read the mappings: %w", err)
	}
	defer f.Close()
	var from, to uintptr // of a mapping that nobody may write
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		var a, b uintptr
		var mode string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &a, &b, &mode); n == 3 {
			from, to = 0, 0
			if strings.HasSuffix(line, " "+self) && (mode == "r-xp" || mode == "r--p") {
				from, to = a, b
			}
			continue
		}
		// A loader may have written into it before: then it is not what the file says.
		if to == 0 || strings.Join(strings.Fields(line), " ") != "Anonymous: 0 kB" {
			continue
		}
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("unmap pages of the program: %w", errno)
		}
	}
	return lines.Err()
}
