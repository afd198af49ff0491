//! The return addresses on the calling thread's stack, found without any lock.
//!
//! The C runtime's own unwinder will not do inside a lock function. It allocates and waits for a lock as soon as the program
//! has registered unwind tables at run time, as just-in-time compilers do; and the allocator may be the caller. So the tables
//! that programs and libraries carry (`.eh_frame_hdr`, DWARF 5 section 6.4, System V ABI "Exception Frames") are read here. The
//! module of an address comes from `_dl_find_object`, which takes no lock and may be called in a signal handler. Generated
//! code ends the walk: its tables could only be had under the lock.
//!
//! What the compiler keeps across calls is all that is followed, and a frame's rules take less than 100 bytes, so that a
//! walk fits onto the smallest stack.

use core::arch::naked_asm;
use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;

/// glibc's `struct dl_find_object`, the same on all 64-bit architectures that are known here.
#[repr(C)]
struct FoundObject {
    flags: u64,
    map_start: *const u8,
    map_end: *const u8,
    link_map: *const LinkMap,
    eh_frame: *const u8,
    reserved: [u64; 7],
}

/// The public part of `struct link_map`, as far as it is used.
#[repr(C)]
struct LinkMap {
    bias: usize,
    name: *const c_char,
    dynamic: *const c_void,
}

unsafe extern "C" {
    fn _dl_find_object(address: *const c_void, result: *mut FoundObject) -> c_int;
}

/// A program or library in memory; of one whose segments do not lie page by page, the segment.
#[derive(Clone, Copy)]
pub(crate) struct Module {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// What is added to the addresses in its file.
    pub(crate) bias: usize,
    /// What tells it apart from others: where the loader keeps it, and where its dynamic section is.
    pub(crate) loaded: [usize; 2],
    /// Its `.eh_frame_hdr`; null without one.
    unwind_header: *const u8,
}

/// Bytes of a page, where pages are smallest.
const SMALLEST_PAGE: usize = 4096;

impl Module {
    /// Where the start of its file is mapped. The kernel maps a program's segments, and where there is space between them the loader knows
    /// each by itself; those of a library it maps as one.
    pub(crate) fn start_of_file(&self) -> usize {
        // SAFETY: the loader says that something is mapped there, which the caller uses, so that it stays.
        let is_start = unsafe { (self.start as *const [u8; 4]).read() } == *b"\x7fELF";
        if is_start {
            return self.start;
        }
        // The program's headers are in its file's first page.
        // SAFETY: asks the C library for what the kernel has told it.
        let headers = unsafe { libc::getauxval(libc::AT_PHDR) } as usize;
        headers & !(SMALLEST_PAGE - 1)
    }
}

/// The module that an address lies in. It stays as long as something in it is in use.
pub(crate) fn module_of(address: usize) -> Option<Module> {
    let mut found = MaybeUninit::<FoundObject>::uninit();
    // SAFETY: the result is as glibc wants it, which fills it in where it answers 0; a module's link map stays with it.
    unsafe {
        if _dl_find_object(address as *const c_void, found.as_mut_ptr()) != 0 {
            return None;
        }
        let found = found.assume_init();
        Some(Module {
            start: found.map_start as usize,
            end: found.map_end as usize,
            bias: (*found.link_map).bias,
            loaded: [found.link_map.addr(), (*found.link_map).dynamic.addr()],
            unwind_header: found.eh_frame,
        })
    }
}

#[cfg(target_arch = "x86_64")]
mod registers {
    /// Registers that are followed: rbx, rbp, rsp, r12 to r15, and the return address.
    pub(super) const COUNT: usize = 8;
    pub(super) const STACK_POINTER: usize = 2;
    pub(super) const RETURN_ADDRESS: usize = 7;

    /// Where a register of the unwind tables is kept.
    pub(super) const fn index(number: u64) -> Option<usize> {
        Some(match number {
            3 => 0,
            6 => 1,
            7 => 2,
            12..=16 => number as usize - 9,
            _ => return None,
        })
    }

    pub(super) fn code_address(value: usize) -> usize {
        value
    }
}

#[cfg(target_arch = "aarch64")]
mod registers {
    /// Registers that are followed: x19 to x30, and sp. The return address is x30.
    pub(super) const COUNT: usize = 13;
    pub(super) const STACK_POINTER: usize = 12;
    pub(super) const RETURN_ADDRESS: usize = 11;

    /// Where a register of the unwind tables is kept.
    pub(super) const fn index(number: u64) -> Option<usize> {
        Some(match number {
            19..=31 => number as usize - 19,
            _ => return None,
        })
    }

    /// Without the signature that pointer authentication puts into a return address.
    pub(super) fn code_address(value: usize) -> usize {
        let mut address = value;
        // SAFETY: changes x30 alone; a processor without pointer authentication takes it for no operation.
        unsafe {
            core::arch::asm!("mov x30, {0}", "hint #7", "mov {0}, x30", inout(reg) address, out("x30") _)
        };
        address
    }
}

use registers::{COUNT, RETURN_ADDRESS, STACK_POINTER};

type Registers = [usize; COUNT];

/// Stores the registers as they are for the caller when the call has returned.
#[unsafe(naked)]
unsafe extern "C" fn capture(to: *mut Registers) {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        "mov [rdi], rbx", "mov [rdi + 8], rbp", "lea rax, [rsp + 8]", "mov [rdi + 16], rax",
        "mov [rdi + 24], r12", "mov [rdi + 32], r13", "mov [rdi + 40], r14", "mov [rdi + 48], r15",
        "mov rax, [rsp]", "mov [rdi + 56], rax", "ret",
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        "stp x19, x20, [x0]", "stp x21, x22, [x0, #16]", "stp x23, x24, [x0, #32]",
        "stp x25, x26, [x0, #48]", "stp x27, x28, [x0, #64]", "stp x29, x30, [x0, #80]", "mov x9, sp",
        "str x9, [x0, #96]", "ret",
    );
}

/// Frames that are walked at most, those of this library and of signal handlers included.
const DEEPEST: usize = 64;

/// Calls `each` with the return addresses on the stack, innermost first and this library's own included, until it says no.
///
/// Never inlined, so that what it needs of the stack is freed.
#[inline(never)]
pub(crate) fn walk(each: &mut dyn FnMut(usize) -> bool) {
    let mut registers: Registers = [0; COUNT];
    // SAFETY: there is space for all of them.
    unsafe { capture(&raw mut registers) };
    let mut interrupted = false; // the frame's address is that of an instruction, not one that a call returns to
    for _ in 0..DEEPEST {
        let address = registers[RETURN_ADDRESS];
        let Some(frame) = Frame::at(address, interrupted) else { return };
        let Some(caller) = frame.caller(&registers) else { return };
        registers = caller;
        interrupted = frame.of_signal;
        if registers[RETURN_ADDRESS] == 0 || !each(registers[RETURN_ADDRESS]) {
            return;
        }
    }
}

/// Where a register of the caller is.
#[derive(Clone, Copy)]
enum Rule {
    /// Where it was.
    Same,
    /// Nowhere.
    Undefined,
    /// In memory, at this distance from the frame's address.
    Saved(i32),
    /// At this distance from the frame's address itself.
    Distance(i32),
    /// In another register.
    Register(u8),
    /// In memory, at what the expression at this distance from the unwind table's start gives.
    SavedAt(i32),
    /// What the expression gives.
    Value(i32),
}

/// How the frame's address, the caller's stack pointer at the call, is found.
#[derive(Clone, Copy)]
enum FrameAddress {
    Offset(u8, i32),
    Expression(i32),
    /// In a register that is not followed.
    Unknown,
}

#[derive(Clone, Copy)]
struct Rules {
    frame: FrameAddress,
    registers: [Rule; COUNT],
}

/// What the tables say of the code at an address.
struct Frame {
    rules: Rules,
    /// Expressions lie at these distances from here.
    base: *const u8,
    /// The frame is the kernel's for a signal handler, so that its caller was interrupted.
    of_signal: bool,
}

/// Reads the tables, which the linker has laid out and the loader mapped.
#[derive(Clone, Copy)]
struct Bytes(*const u8);

impl Bytes {
    /// # Safety
    /// The table goes on with a value of this type.
    unsafe fn take<T: Copy>(&mut self) -> T {
        // SAFETY: the caller's promise.
        unsafe {
            let value = self.0.cast::<T>().read_unaligned();
            self.0 = self.0.add(size_of::<T>());
            value
        }
    }

    /// # Safety
    /// The table goes on with a number in LEB128.
    unsafe fn unsigned(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            // SAFETY: the caller's promise.
            let byte: u8 = unsafe { self.take() };
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                return value;
            }
        }
    }

    /// # Safety
    /// As [`Bytes::unsigned`].
    unsafe fn signed(&mut self) -> i64 {
        let (mut value, mut shift) = (0i64, 0);
        loop {
            // SAFETY: the caller's promise.
            let byte: u8 = unsafe { self.take() };
            value |= i64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                let above = if byte & 0x40 != 0 && shift < 64 { -1i64 << shift } else { 0 };
                return value | above;
            }
        }
    }

    /// An address or length of this encoding, without what it is relative to.
    ///
    /// # Safety
    /// The table goes on with one.
    unsafe fn encoded(&mut self, encoding: u8) -> Option<u64> {
        // SAFETY: the caller's promise.
        unsafe {
            Some(match encoding & 0x0f {
                0x00 | 0x04 | 0x0c => self.take::<u64>(),
                0x01 => self.unsigned(),
                0x02 => self.take::<u16>().into(),
                0x03 => self.take::<u32>().into(),
                0x09 => self.signed() as u64,
                0x0a => self.take::<i16>() as u64,
                0x0b => self.take::<i32>() as u64,
                _ => return None,
            })
        }
    }
}

/// What a common information entry says, and where its instructions are.
struct Common {
    code_align: u64,
    data_align: i64,
    /// Encoding of the addresses in its frame entries.
    encoding: u8,
    of_signal: bool,
    augmented: bool,
    instructions: Bytes,
    end: *const u8,
}

impl Common {
    /// # Safety
    /// A common information entry is there.
    unsafe fn read(mut bytes: Bytes) -> Option<Self> {
        // SAFETY: the caller's promise; what is read comes in the order of the format.
        unsafe {
            let length: u32 = bytes.take();
            if length == u32::MAX {
                return None; // the 64-bit form, which no linker makes for unwinding
            }
            let end = bytes.0.add(length as usize);
            bytes.take::<u32>();
            let version: u8 = bytes.take();
            let mut augmentation = bytes;
            while bytes.take::<u8>() != 0 {}
            if version == 4 {
                bytes.take::<[u8; 2]>();
            }
            let mut common = Self {
                code_align: bytes.unsigned(),
                data_align: bytes.signed(),
                encoding: 0,
                of_signal: false,
                augmented: false,
                instructions: bytes,
                end,
            };
            let return_address = if version == 1 { u64::from(bytes.take::<u8>()) } else { bytes.unsigned() };
            if registers::index(return_address) != Some(RETURN_ADDRESS) {
                return None;
            }
            let mut after = bytes;
            loop {
                match augmentation.take::<u8>() {
                    0 => break,
                    b'z' => {
                        common.augmented = true;
                        let length = bytes.unsigned();
                        after = Bytes(bytes.0.add(length as usize));
                    }
                    b'R' => common.encoding = bytes.take(),
                    b'P' => {
                        let encoding = bytes.take();
                        bytes.encoded(encoding)?;
                    }
                    b'L' => drop(bytes.take::<u8>()),
                    b'S' => common.of_signal = true,
                    b'B' => {}
                    _ => return None,
                }
            }
            common.instructions = if common.augmented { after } else { bytes };
            Some(common)
        }
    }
}

impl Frame {
    /// What the tables say of the frame whose code is at an address, to which a call returns unless it was interrupted.
    fn at(address: usize, interrupted: bool) -> Option<Self> {
        // A call may be the last instruction of a function.
        let address = if interrupted { address } else { address.wrapping_sub(1) };
        let module = module_of(address)?;
        if module.unwind_header.is_null() {
            return None;
        }
        // SAFETY: the module has a frame on the stack, so it and its tables stay.
        unsafe {
            let (start, entry) = frame_entry(module.unwind_header, address)?;
            Self::read(entry, start, address)
        }
    }

    /// # Safety
    /// A frame description entry for code from `start` on is there, in a module that stays.
    unsafe fn read(entry: *const u8, start: usize, address: usize) -> Option<Self> {
        let mut bytes = Bytes(entry);
        // SAFETY: the caller's promise; what is read comes in the order of the format.
        unsafe {
            let length: u32 = bytes.take();
            if length == u32::MAX || length == 0 {
                return None;
            }
            let (end, here) = (bytes.0.add(length as usize), bytes.0);
            let back: u32 = bytes.take();
            let common = Common::read(Bytes(here.sub(back as usize)))?;
            bytes.encoded(common.encoding)?;
            let range = bytes.encoded(common.encoding & 0x0f)?;
            if address.wrapping_sub(start) as u64 >= range {
                return None;
            }
            if common.augmented {
                let length = bytes.unsigned();
                bytes.0 = bytes.0.add(length as usize);
            }
            let rules = Rules { frame: FrameAddress::Unknown, registers: [Rule::Same; COUNT] };
            let mut program =
                Program { base: entry, common: &common, rules, location: start, target: address };
            program.run(common.instructions, common.end, None)?;
            let initial = program.rules;
            program.run(bytes, end, Some(&initial))?;
            Some(Self { rules: program.rules, base: entry, of_signal: common.of_signal })
        }
    }

    /// The registers of the caller.
    fn caller(&self, registers: &Registers) -> Option<Registers> {
        let stack = registers[STACK_POINTER];
        let frame = match self.rules.frame {
            FrameAddress::Offset(register, offset) => {
                registers[usize::from(register)].wrapping_add_signed(offset as isize)
            }
            FrameAddress::Expression(at) => self.evaluate(at, registers, None)?,
            FrameAddress::Unknown => return None,
        };
        let mut caller = *registers;
        caller[STACK_POINTER] = frame;
        for (value, rule) in caller.iter_mut().zip(&self.rules.registers) {
            *value = match *rule {
                Rule::Same => continue,
                Rule::Undefined => 0,
                Rule::Saved(offset) => saved(frame.wrapping_add_signed(offset as isize), stack)?,
                Rule::Distance(offset) => frame.wrapping_add_signed(offset as isize),
                Rule::Register(index) => registers[usize::from(index)],
                Rule::SavedAt(at) => saved(self.evaluate(at, registers, Some(frame))?, stack)?,
                Rule::Value(at) => self.evaluate(at, registers, Some(frame))?,
            };
        }
        caller[RETURN_ADDRESS] = registers::code_address(caller[RETURN_ADDRESS]);
        // Stacks grow downwards; a signal handler may have one of its own.
        let outwards = self.of_signal
            || frame > stack
            || frame == stack && caller[RETURN_ADDRESS] != registers[RETURN_ADDRESS];
        outwards.then_some(caller)
    }

    /// The value of an expression: those that assemblers and compilers write for realigned stacks, stubs of the linker's and
    /// signal frames. `first` is what it starts from.
    fn evaluate(&self, at: i32, registers: &Registers, first: Option<usize>) -> Option<usize> {
        let mut bytes = Bytes(self.base.wrapping_offset(at as isize));
        let mut values = [first.unwrap_or(0), 0, 0, 0];
        let mut depth = usize::from(first.is_some());
        // SAFETY: an expression of the module's tables: its length, then as many bytes.
        unsafe {
            let length = bytes.unsigned() as usize;
            let end = bytes.0.add(length);
            while bytes.0 < end {
                let operation: u8 = bytes.take();
                let value = match operation {
                    0x30..=0x4f => usize::from(operation - 0x30),
                    0x08 => bytes.take::<u8>().into(),
                    0x09 => bytes.take::<i8>() as usize,
                    0x0a => bytes.take::<u16>().into(),
                    0x0b => bytes.take::<i16>() as usize,
                    0x10 => bytes.unsigned() as usize,
                    0x11 => bytes.signed() as usize,
                    0x70..=0x8f => {
                        let register = registers::index(u64::from(operation - 0x70))?;
                        registers[register].wrapping_add_signed(bytes.signed() as isize)
                    }
                    0x06 => {
                        depth = depth.checked_sub(1)?;
                        saved(values[depth], registers[STACK_POINTER])?
                    }
                    0x23 => {
                        depth = depth.checked_sub(1)?;
                        values[depth].wrapping_add(bytes.unsigned() as usize)
                    }
                    0x1a | 0x1c | 0x22 | 0x24 | 0x2a => {
                        depth = depth.checked_sub(2)?;
                        let (left, right) = (values[depth], values[depth + 1]);
                        match operation {
                            0x1a => left & right,
                            0x1c => left.wrapping_sub(right),
                            0x22 => left.wrapping_add(right),
                            0x24 => left.checked_shl(right as u32).unwrap_or(0),
                            _ => usize::from(left as isize >= right as isize),
                        }
                    }
                    _ => return None,
                };
                *values.get_mut(depth)? = value;
                depth += 1;
            }
        }
        depth.checked_sub(1).map(|last| values[last])
    }
}

/// A register that was saved on the stack. What lies elsewhere is not read: the tables may be wrong.
fn saved(address: usize, stack: usize) -> Option<usize> {
    const LARGEST_FRAME: usize = 64 << 20;
    // A leaf function may save below its stack pointer.
    const RED_ZONE: usize = 128;
    let distance = address.wrapping_sub(stack.wrapping_sub(RED_ZONE));
    if distance > LARGEST_FRAME || !address.is_multiple_of(8) {
        return None;
    }
    // SAFETY: on the calling thread's stack, between its stack pointer and a frame's address.
    Some(unsafe { (address as *const usize).read() })
}

/// Finds the entry of the code at an address in the sorted table of a module: where the code starts, and the entry.
///
/// # Safety
/// The header is that of a module that stays.
unsafe fn frame_entry(header: *const u8, address: usize) -> Option<(usize, *const u8)> {
    const RELATIVE_TO_HEADER: u8 = 0x3b; // DW_EH_PE_datarel | DW_EH_PE_sdata4: what all linkers make
    let mut bytes = Bytes(header);
    // SAFETY: the caller's promise; what is read comes in the order of the format.
    unsafe {
        let [version, frame_encoding, count_encoding, table_encoding]: [u8; 4] = bytes.take();
        if version != 1 || table_encoding != RELATIVE_TO_HEADER {
            return None;
        }
        bytes.encoded(frame_encoding)?;
        let count = bytes.encoded(count_encoding)? as usize;
        let table = bytes.0.cast::<[i32; 2]>();
        let line = |i: usize| table.add(i).read_unaligned();
        let wanted = address.wrapping_sub(header as usize) as isize;
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if line(middle)[0] as isize <= wanted { low = middle + 1 } else { high = middle }
        }
        let [start, entry] = line(low.checked_sub(1)?);
        Some(((header as usize).wrapping_add_signed(start as isize), header.offset(entry as isize)))
    }
}

/// Runs call frame instructions up to an address.
struct Program<'c> {
    base: *const u8,
    common: &'c Common,
    rules: Rules,
    location: usize,
    target: usize,
}

impl Program<'_> {
    fn set(&mut self, register: u64, rule: Rule) {
        if let Some(index) = registers::index(register) {
            self.rules.registers[index] = rule;
        }
    }

    /// # Safety
    /// The instructions go from `bytes` to `end`.
    #[inline(never)]
    unsafe fn run(&mut self, mut bytes: Bytes, end: *const u8, initial: Option<&Rules>) -> Option<()> {
        // Compilers do not nest `remember_state`; of two, the walk ends at the outer one's return.
        let mut remembered = None;
        // SAFETY: the caller's promise; operands come in the order of the format.
        unsafe {
            while bytes.0 < end && self.location <= self.target {
                let instruction: u8 = bytes.take();
                let low = u64::from(instruction & 0x3f);
                match instruction {
                    0x40..=0x7f => self.advance(low),
                    0x80..=0xbf => {
                        let offset = self.factored(bytes.unsigned() as i64)?;
                        self.set(low, Rule::Saved(offset));
                    }
                    0xc0..=0xff => self.restore(low, initial),
                    0x00 => {}
                    0x01 => return None, // set_loc, which no compiler writes
                    0x02 => self.advance(bytes.take::<u8>().into()),
                    0x03 => self.advance(bytes.take::<u16>().into()),
                    0x04 => self.advance(bytes.take::<u32>().into()),
                    0x05..=0x09 | 0x10 | 0x11 | 0x14..=0x16 | 0x2f => {
                        self.run_for_register(instruction, &mut bytes, initial)?;
                    }
                    0x0a => remembered = Some(self.rules),
                    0x0b => self.rules = remembered.take()?,
                    0x0c..=0x0f | 0x12 | 0x13 => self.run_for_frame(instruction, &mut bytes)?,
                    0x2d => {} // the return address is signed from here on: see `code_address`
                    0x2e => drop(bytes.unsigned()), // size of the arguments
                    _ => return None,
                }
            }
        }
        Some(())
    }

    /// An instruction that sets the rule of the register that it names first.
    ///
    /// # Safety
    /// Its operands follow in `bytes`.
    #[inline]
    unsafe fn run_for_register(
        &mut self,
        instruction: u8,
        bytes: &mut Bytes,
        initial: Option<&Rules>,
    ) -> Option<()> {
        // SAFETY: the caller's promise; operands come in the order of the format.
        unsafe {
            let register = bytes.unsigned();
            let rule = match instruction {
                0x06 => {
                    self.restore(register, initial);
                    return Some(());
                }
                0x07 => Rule::Undefined,
                0x08 => Rule::Same,
                0x09 => registers::index(bytes.unsigned())
                    .map_or(Rule::Undefined, |from| Rule::Register(from as u8)),
                0x10 => Rule::SavedAt(self.expression(bytes)?),
                0x16 => Rule::Value(self.expression(bytes)?),
                _ => {
                    let offset = match instruction {
                        0x05 | 0x14 => bytes.unsigned() as i64,
                        0x2f => -(bytes.unsigned() as i64),
                        _ => bytes.signed(),
                    };
                    let offset = self.factored(offset)?;
                    let by_value = matches!(instruction, 0x14 | 0x15);
                    if by_value { Rule::Distance(offset) } else { Rule::Saved(offset) }
                }
            };
            self.set(register, rule);
        }
        Some(())
    }

    /// An instruction that says where the frame is.
    ///
    /// # Safety
    /// Its operands follow in `bytes`.
    #[inline]
    unsafe fn run_for_frame(&mut self, instruction: u8, bytes: &mut Bytes) -> Option<()> {
        // SAFETY: the caller's promise; operands come in the order of the format.
        unsafe {
            if instruction == 0x0f {
                self.rules.frame = FrameAddress::Expression(self.expression(bytes)?);
                return Some(());
            }
            let register =
                if matches!(instruction, 0x0c | 0x0d | 0x12) { Some(bytes.unsigned()) } else { None };
            let offset = match instruction {
                0x0c | 0x0e => Some(i32::try_from(bytes.unsigned().cast_signed()).ok()?),
                0x12 | 0x13 => Some(self.factored(bytes.signed())?),
                _ => None,
            };
            match (register, offset, self.rules.frame) {
                (Some(register), Some(offset), _) => self.frame_from(register, offset),
                (_, _, FrameAddress::Expression(_)) => return None,
                (Some(register), None, FrameAddress::Offset(_, offset)) => self.frame_from(register, offset),
                (None, Some(offset), FrameAddress::Offset(register, _)) => {
                    self.rules.frame = FrameAddress::Offset(register, offset);
                }
                _ => {}
            }
        }
        Some(())
    }

    fn advance(&mut self, by: u64) {
        self.location = self.location.saturating_add((by * self.common.code_align) as usize);
    }

    fn factored(&self, offset: i64) -> Option<i32> {
        i32::try_from(offset.checked_mul(self.common.data_align)?).ok()
    }

    fn restore(&mut self, register: u64, initial: Option<&Rules>) {
        if let (Some(index), Some(initial)) = (registers::index(register), initial) {
            self.rules.registers[index] = initial.registers[index];
        }
    }

    fn frame_from(&mut self, register: u64, offset: i32) {
        let index = registers::index(register);
        self.rules.frame =
            index.map_or(FrameAddress::Unknown, |index| FrameAddress::Offset(index as u8, offset));
    }

    /// # Safety
    /// The instructions go on with an expression.
    unsafe fn expression(&self, bytes: &mut Bytes) -> Option<i32> {
        let at = (bytes.0 as isize).wrapping_sub(self.base as isize);
        // SAFETY: the caller's promise.
        unsafe {
            let length = bytes.unsigned();
            bytes.0 = bytes.0.add(length as usize);
        }
        i32::try_from(at).ok()
    }
}

/// Writes the return addresses of the program's part of the stack, innermost first, and says how many there are.
pub(crate) fn stack<const N: usize>(frames: &mut [u64; N]) -> usize {
    let own = module_of(walk as *const () as usize).map_or(0..0, |module| module.start..module.end);
    let mut length = 0;
    walk(&mut |address| {
        if !own.contains(&address) {
            frames[length] = address as u64;
            length += 1;
        }
        length < N
    });
    length
}
