"""Expressions whose outcome (value, dtype, shape, printed form, or class of error) is the peer's, one by one.

`EXPRESSIONS` lists (statements, expression). Left out are those in which the peer crashes or reads foreign memory.
"""

import itertools

DTYPES = """bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64""".split()


def listed(text):
    return [e.strip() for e in text.replace("\n", " ").split(";") if e.strip()]


EXPRESSIONS = []


def add(*expressions, before=""):
    EXPRESSIONS.extend((before, e) for e in expressions)


# Printing and reading.
for d in DTYPES:
    x = f"mx.array([0, 1, 3]).astype(mx.{d})"
    add(f"repr({x})", f"repr(mx.zeros((2, 0), mx.{d}))", f"repr({x}[1])", f"repr(mx.arange(24).reshape(2, 3, 4).astype(mx.{d}))")
    add(f"str(mx.arange(20).reshape(2, 10).astype(mx.{d}))", f"{x}.tolist()", f"{x}[2].item()", f"f'{{{x}[2]}}'", f"mx.{d}.size")
    add(f"memoryview({x}).format", f"{x}.nbytes, {x}.itemsize", f"repr(mx.{d})")
add(*listed(r"""
repr(mx.array([1e-5, 123456789.0, 1e20, 0.1])); repr(mx.array([[1.5]])); repr(mx.zeros((0,)));
repr(mx.zeros((3,0,2))); repr(mx.arange(100).reshape(10,10)); repr(mx.arange(1000).reshape(10,10,10));
repr(mx.array([1+2j, -1.5-0.5j])); repr(mx.array(1+0j)); f'{mx.array(1.5):.3f}'; f'{mx.array([1.5]):.3f}';
f'{mx.array(3):d}'; f'{mx.array(3):5d}|'; f'{mx.array(True)}'; repr(mx.array(-0.0));
repr(mx.array([100000,1000000],mx.float32)); repr(mx.array([0.1,0.25],mx.bfloat16)); repr(mx.array(1e-8,mx.float16));
str(mx.array([True])); repr(mx.cpu); repr(mx.Device(mx.cpu,0)); repr(mx.default_stream(mx.cpu)); repr(mx.float32);
str(mx.int8); repr(mx.floating); repr(mx.finfo(mx.float16)); repr(mx.iinfo(mx.int8)); mx.finfo(mx.float32).eps;
mx.finfo(mx.bfloat16).max; mx.iinfo(mx.uint64).max; mx.finfo(mx.int32); mx.iinfo(mx.float32);
mx.finfo(mx.complex64).eps
"""))

# A number beside an array, on both sides.
NUMBERS = listed("True; 1; -1; 1.5; float('inf'); 1e300; 1j; 'a'; [1]; (1, 2); mx.array(1.5); mx.array(2, mx.int8); {}; mx.float32")
for d, n, op in itertools.product(DTYPES, NUMBERS, "+ * / // % ** == < & << -".split()):
    add(f"mx.array([1, 2]).astype(mx.{d}) {op} {n}")
    if op not in ("&", "<<"):
        add(f"{n} {op} mx.array([1, 2]).astype(mx.{d})")
for a, b in itertools.product(DTYPES, DTYPES):
    x = f"mx.array([1, 3]).astype(mx.{a})"
    add(f"({x} + mx.array([1, 2]).astype(mx.{b})).dtype", f"mx.array([3, -2]).astype(mx.{a}) / mx.array([2, 0]).astype(mx.{b})")
    add(f"mx.array([300, -2]).astype(mx.{a}).astype(mx.{b})", f"{x} // mx.array([2, 3]).astype(mx.{b})", f"{x} ** mx.array([2, 3]).astype(mx.{b})")
    add(f"mx.issubdtype(mx.{a}, mx.{b}), mx.can_cast(mx.{a}, mx.{b}), mx.result_type(mx.{a}, mx.{b})", f"mx.maximum({x}, mx.array([2, 1]).astype(mx.{b}))")

# Functions of one array.
UNARY = """abs arccos arccosh arcsin arcsinh arctan arctanh ceil cos cosh degrees erf erfinv exp expm1 floor imag isfinite
isinf isnan isneginf isposinf log log10 log1p log2 logical_not negative radians real reciprocal rsqrt sigmoid sign sin sinh
sqrt square tan tanh trunc conjugate bitwise_invert positive round stop_gradient nan_to_num""".split()
for f in UNARY:
    add(*(f"mx.{f}(mx.array([0, 1, 2]).astype(mx.{d}))" for d in DTYPES))
    add(*(f"mx.{f}({x})" for x in listed("None; mx.zeros((0,)); mx.array(0.5); mx.zeros((2, 0, 3)); ")), f"mx.{f}()")
REDUCE = """all any sum prod min max mean median logsumexp var std argmax argmin cumsum cumprod cummax cummin logcumsumexp sort
argsort softmax minmax count_nonzero""".split()
M = "mx.array([[3., 1, 2], [0, 5, 4]])"
for f in REDUCE:
    for d in DTYPES:
        add(*(f"mx.{f}(mx.array([[3, 1, 2], [0, 5, 4]]).astype(mx.{d}){axis})" for axis in ("", ", axis=0")))
    axes = "-1; 1; 2; -3; None; (0, 1); [0]; (); (0, 0); 1.0; 'a'; np.int64(1); mx.array(0); (0, 2); True"
    add(*(f"mx.{f}({M}, axis={a})" for a in listed(axes)), f"mx.{f}({M}, 0, True)", f"mx.{f}({M}, axis=1, keepdims=True)")
    operands = "mx.zeros((0,)); mx.array(3.0); 5; [1, 2]; mx.array([mx.nan, 1.0]); mx.array([mx.inf, 1.0])"
    add(*(f"mx.{f}({a})" for a in listed(operands)), f"mx.{f}(mx.zeros((0, 3)), axis=0)", f"mx.{f}(mx.zeros((0, 3)), axis=1)")
METHODS = """abs all any argmax argmin conj cos cummax cummin cumprod cumsum diag diagonal exp flatten item log log10 log1p log2
logcumsumexp logsumexp max mean min prod reciprocal round rsqrt sin sqrt square squeeze std sum tolist transpose var""".split()
for m in METHODS:
    add(f"{M}.{m}()", f"mx.array([[3, 1], [2, 4]]).{m}()", f"{M}.{m}(0)", f"mx.array(2).{m}()", f"mx.zeros((0, 2)).{m}()", f"{M}.{m}(7)")
for f in ("var", "std"):
    add(f"mx.{f}(mx.array([1., 2, 4]), ddof=1)", f"mx.{f}(mx.array([1.]), ddof=1)", f"mx.{f}(mx.array([1., 2]), ddof=5)")

# Reading and writing by index.
ONE = listed("""0; -1; 4; -5; None; ...; (); :; 1:3; ::2; ::-1; 3:1; -2:; 10:20; 1:4:2; 4:0:-2; 100::-1; [0, 2]; [0, -1]; [[0, 1], [2, 3]];
mx.array([0, 2]); mx.array(1); mx.array([True, False, True, False, True]); True; 1.0; 'a'; range(3); mx.array([0.5]); (0,);
np.int64(1); np.array(1); mx.array([0, 1], mx.uint8); mx.array([-1], mx.int64); {0}; 2**40; mx.array([[0], [1]]); (..., ...)""")
MORE = listed("""0, 1; 0, -1; 0, :; ..., 0; 0, ...; :, 0; :, 1:3; ::2, ::-1; mx.array([0, 1]), 0; mx.array([0, 1]), mx.array([1, 2]);
0, mx.array([1, 2]); mx.array([[0], [1]]), mx.array([1, 2]); :, mx.array([1, 2]); mx.array([0, 1]), :; mx.array([0, 1]), 1:3;
None, 0; 0, None; 0, 0, 0; :, None, 0; mx.array([0, 1]), None, 0; 1, [0, 1]; [0, 1], [0, 1]; ..., None; 0, True;
mx.array(0), mx.array(1); :, mx.array(1); ..., [0, 1]; [0], ..., [1]; 1:3, [0, 1]; None, mx.array([0, 1])""")
SHAPES = {1: "mx.arange(5)", 2: "mx.arange(20).reshape(5, 4)", 3: "mx.arange(60).reshape(5, 4, 3)"}
for i in ONE + MORE:
    for n, x in SHAPES.items():
        add(f"x[{i}]", before=f"x = {x}")
        values = listed("9; mx.array(7); mx.array([5, 6]); mx.array([1, 2, 3, 4]); [1, 2]; True; 'a'")
        for v in values:
            add("x", before=f"x = {x}\nx[{i}] = {v}")
    for m in ("add", "subtract", "multiply", "maximum", "minimum"):
        add(f"x.at[{i}].{m}(2)", before=f"x = {SHAPES[2]}")
    add("x", before=f"x = {SHAPES[2]}\nx[{i}] += 1")
MASKS = listed("""mx.array([True, False, True]); [True, False, True]; np.array([True, False, True]); mx.array([True, False]); True; False;
mx.array([[True, False], [False, True], [True, True]]); mx.array(True)""")
for mask in MASKS:
    for v in listed("9; mx.array([7, 8]); mx.array([7]); mx.array([[7, 8], [9, 10]]); mx.array([7, 8, 9, 10]); mx.array(5); 2.5"):
        add("x", before=f"x = mx.arange(6).reshape(3, 2)\nx[{mask}] = {v}")

# In place; every name sees it.
for d in "int32 uint8 float16 float32 bool_ complex64 int64".split():
    for v in listed("1; 1.5; True; 1j; mx.array([[1], [2]]); mx.array(1.5); 'a'; None"):
        for op in "+= -= *= /= //= %= **= &= |= ^= <<= >>= @=".split():
            add("x, y is x", before=f"x = y = mx.array([1, 2]).astype(mx.{d})\nx {op} {v}")

# One by one.
add(*listed(r"""
mx.array([1,2]).item(); mx.array([]).item(); bool(mx.array([])); bool(mx.array([1,2])); int(mx.array([2.7]));
float(mx.array(1j)); complex(mx.array(1j)); complex(mx.array(2)); int(mx.array([1,2])); [1,2,3][mx.array(1)];
[1,2,3][mx.array(1.0)]; [1,2,3][mx.array([1])]; range(mx.array(3)); round(mx.array(1.5)); len(mx.array(1));
len(mx.zeros((3,2))); iter(mx.array(1)); list(mx.array([1,2])); hash(mx.array(1)) is not None; mx.array([1])==None;
mx.array([1])!=None; mx.array([1,2])==[1,2]; mx.array([1,2])!='a'; mx.array([1,2])<'a';
mx.array([1,2])==mx.array([1,2,3]); 3 in mx.array([1,2]); 1 in mx.array([1,2]); mx.array([1]).foo;
setattr(mx.array([1]),'foo',1); mx.array([1]).T; mx.array(5).T; mx.array([[1,2]]).mT; mx.array([1]).mT;
mx.zeros((2,3)).size; mx.array([1]).shape; mx.array(1)[0]; mx.array(7)[None]; mx.array(7)[()]; mx.array(7)[...];
mx.array(7)[:]; divmod(mx.array([7]),2); abs(mx.array([-1])); -mx.array([True]); ~mx.array([True,False]);
~mx.array([1.0]); +mx.array([1]); mx.array([1,2])@mx.array([3,4]); mx.array([1.,2])@mx.array([3,4]);
mx.array([1.])@2; 2@mx.array([1.]); mx.array([[1.,2]])@mx.array([[1.,2]]); mx.array([1.,2])@np.array([1.,2.]);
mx.array(1.0)@mx.array([1.0]); mx.arange(6).reshape(2,3); mx.arange(6).reshape((2,3)); mx.arange(6).reshape([2,3]);
mx.arange(6).reshape(-1); mx.arange(6).reshape(2,-1); mx.arange(6).reshape(2.0,3); mx.arange(6).reshape(mx.array(6));
mx.ones((2,3,4)).transpose(1,0,2).shape; mx.ones((2,3,4)).transpose([1,0,2]).shape; mx.ones((2,3,4)).transpose(0,1);
mx.ones((2,3)).swapaxes(0,1).shape; mx.ones((2,3)).moveaxis(0,1).shape; mx.arange(6).split(2);
mx.arange(6).split([2]); mx.array([1.5]).astype(mx.int32); mx.array([1.5]).astype('int32');
mx.array([1.5]).astype(int); mx.array([1.5]).view(mx.int32); mx.array([1,2]).astype(mx.int32, stream=mx.cpu);
mx.array([1,2]).sum(stream=mx.cpu); mx.add(mx.array([1]),1,stream=mx.gpu); mx.add(mx.array([1]),1,stream='a');
mx.eval(mx.array(1)); mx.eval([mx.array(1),{'a':mx.array(2)}],3,None); mx.eval(); mx.async_eval(mx.array(1));
mx.synchronize(); mx.broadcast_shapes((1,),(2,3)); mx.default_device(); mx.set_default_device(mx.gpu);
mx.set_default_device(3); mx.new_stream(mx.gpu); mx.Device(mx.cpu,1); mx.cpu==mx.Device(mx.cpu);
mx.default_stream(mx.gpu); mx.is_available(mx.gpu); mx.device_count(mx.cpu); mx.metal.is_available();
mx.cuda.is_available(); mx.distributed.init().size(); mx.isdtype(mx.float32,'real floating');
mx.isdtype(mx.float32,'a'); mx.result_type(mx.int8,mx.float16); mx.result_type(1,2.5); mx.result_type();
mx.result_type(mx.int8,1); mx.issubdtype(mx.float32,mx.floating); mx.issubdtype(mx.int8,mx.integer);
mx.issubdtype(mx.floating,mx.inexact); mx.issubdtype(1,mx.inexact); type(mx.array(1)).__name__; mx.array.__module__;
mx.array(1).__class__.__name__; isinstance(mx.array(1).shape,tuple); mx.array([1,2]).__len__();
mx.float32==mx.float32; mx.float32 in [mx.float32]; {mx.float32:1}[mx.float32]; mx.float32==np.float32;
mx.float32=='float32'; mx.pi; mx.e; mx.inf; mx.newaxis; np.asarray(mx.array([1,2]));
np.array(mx.array([1.5],mx.float16)); np.asarray(mx.array([1.5],mx.bfloat16)); np.array(mx.arange(6).reshape(2,3).T);
np.asarray(mx.array([True])); np.add(np.array([1]),mx.array([2])); np.float32(2)*mx.array([1.0]);
np.array([1.,2.])+mx.array([1.,2.]); np.sum(mx.array([1,2])); mx.array(np.float64(1.5));
np.from_dlpack(mx.array([1,2])); mx.array([1]).__dlpack_device__(); mx.from_dlpack(np.array([1,2]));
mx.asarray([1,2]); mx.asarray(np.array([1.5])); pickle.loads(pickle.dumps(mx.array([1,2])));
pickle.loads(pickle.dumps(mx.array([1.5],mx.bfloat16))); copy.deepcopy(mx.array([1,2])); copy.copy(mx.array([1,2]));
copy.deepcopy(mx.float32); pickle.loads(pickle.dumps(mx.float32))==mx.float32; mx.sum(mx.array([2**31-1,1]));
mx.mean(mx.array([2**31-1,2**31-1])); mx.array([1+1j])/mx.array([0j]); mx.array([1+1j])/0; 1/mx.array([0j]);
mx.reciprocal(mx.array([0j])); mx.array([0j])/mx.array([0j]); mx.array([mx.inf+1j])*mx.array([0j]);
mx.softmax(mx.array([[1,2],[3,4]])); mx.softmax(mx.array([[1,2],[3,4]]),axis=0);
mx.softmax(mx.array([[1,2],[3,4]]),axis=-1); mx.softmax(mx.array([[1,2],[3,4]]),axis=(0,1));
mx.softmax(mx.array([[1,2],[3,4]],mx.uint8),axis=-1); mx.softmax(mx.array([True,False]));
mx.softmax(mx.array([[1.,2],[3,4]]),axis=-1,precise=True); mx.softmax(mx.array([1j,2]));
mx.softmax(mx.array([-mx.inf,-mx.inf])); mx.softmax(mx.array([mx.inf,1]))
"""))
add(*(f"mx.array({x})" for x in listed(r"""
5; 5.0; True; 1j; None; 'a'; [1,'a']; [1,None]; [[1],[1,2]]; []; [[]]; [[],[]]; (1,2); range(3); {1}; {}; [1,2.5];
[True,2]; [True,False]; [1,2j]; 2**31; 2**63; 2**64; [2**31]; [2**63]; -2**31; -2**31-1; b'ab'; bytearray(b'a');
np.arange(3); np.arange(3.); np.array(1); np.array([1],np.float16); np.array([1],np.uint64); np.array(['a']);
np.array([1j]); np.array([object()]); np.zeros((2,0)); np.arange(6).reshape(2,3).T; np.arange(6)[::2];
np.arange(3)[::-1]; [np.int32(1)]; [np.array([1,2])]; np.int32(1); np.float32(1.5); np.bool_(True); [mx.array(1),2];
[mx.array([1,2]),mx.array([3,4])]; [mx.array([1,2]),[3,4]]; mx.array([1]); memoryview(b'abc'); [[[1]]];
5, mx.float16; [1,2], mx.bool_; 300, mx.uint8; [-1], mx.uint8; [300], mx.uint8; 2**31, mx.int32; [2**31], mx.int32;
1.5, mx.int32; [1.7,-1.7], mx.int32; mx.nan, mx.int32; 1j, mx.float32; [1], 'float32'; [1], float; [1], np.float32;
[1], dtype=mx.int8; 1, mx.complex64; [1.5], mx.float64; 'abc', mx.int8; [1,[2]]; [(1,2),[3,4]];
__import__('array').array('i',[1,2])
""")))
add(*(f"mx.{x}" for x in listed(r"""
zeros(3); zeros((2,)); zeros([2,1]); zeros(()); zeros(-1); zeros((2,-1)); zeros(2.0); zeros('a'); zeros((2.0,));
zeros(mx.array(3)); zeros(np.int64(3)); zeros(2,mx.int8); zeros(2,'int8'); zeros(2,dtype=None); ones((2,2),mx.bool_);
full((2,),3); full((2,),3.5); full((2,),True); full(2,mx.array([1,2])); full((2,2),mx.array([1,2]));
full((3,),mx.array([1,2])); full((2,),300,mx.uint8); full((2,),3.7,mx.int32); full((2,),1j); full((2,),None);
arange(5); arange(5.0); arange(1,5); arange(1,5,2); arange(5,1,-1); arange(0,1,0.25); arange(0,5,0); arange(True);
arange(5,dtype=mx.float16); arange(0.5,3); arange(3,dtype=mx.uint8); arange(-3); arange(); arange('a');
arange(2**31,2**31+2); arange(1,None); arange(start=1,stop=3); arange(stop=3); arange(3,step=2); arange(mx.nan);
arange(mx.inf); arange(0,10,3,mx.float32); linspace(0,1); linspace(0,1,5); linspace(0,1,0); linspace(0,1,1);
linspace(0,10,5,dtype=mx.int32); linspace(1,0,3); linspace(0,1,num=3,endpoint=False); eye(3); eye(2,3); eye(2,k=1);
eye(3,k=-1,dtype=mx.int32); eye(0); eye(-1); identity(2); tri(3); tri(2,3,1); tril(mx.ones((3,3)));
tril(mx.ones((3,))); triu(mx.ones((2,3)),1); tril(mx.ones((2,2,2)),-1); diag(mx.array([1,2]));
diag(mx.array([1,2]),1); diag(mx.array([1,2]),-1); diag(mx.ones((2,3))); diag(mx.ones((2,2,2))); diag(mx.array(1));
diagonal(mx.arange(6).reshape(2,3)); diagonal(mx.arange(6).reshape(2,3),1); diagonal(mx.arange(6).reshape(2,3),5);
diagonal(mx.arange(3)); diagonal(mx.ones((2,2)),0,0,0); trace(mx.arange(4).reshape(2,2));
trace(mx.ones((2,2,3)),0,1,2); trace(mx.ones((3,))); meshgrid(mx.array([1,2]),mx.array([3,4,5]));
meshgrid(mx.array([1,2]),mx.array([3,4,5]),indexing='ij'); meshgrid(mx.array([1,2]),mx.array([3,4,5]),sparse=True);
meshgrid(mx.array([1,2]),indexing='a'); meshgrid(); hanning(4); hanning(0); hanning(1); hamming(5); blackman(5);
bartlett(4); hanning(-1); reshape(mx.arange(6),(2,3)); reshape(mx.arange(6),(2,-1)); reshape(mx.arange(6),(-1,-1));
reshape(mx.arange(6),(4,2)); reshape(mx.arange(6),6); reshape(mx.arange(6),(2.0,3)); reshape(mx.zeros((0,)),(0,-1));
reshape(mx.zeros((0,2)),-1); reshape(mx.arange(6),(-2,3)); flatten(mx.ones((2,3,4))); flatten(mx.ones((2,3,4)),1);
flatten(mx.ones((2,3,4)),0,1); flatten(mx.ones((2,3,4)),2,1); flatten(mx.array(1)); flatten(mx.ones((2,3)),5);
unflatten(mx.arange(6),0,(2,3)); unflatten(mx.arange(6),0,(2,-1)); unflatten(mx.arange(6),1,(2,3));
unflatten(mx.arange(6),0,(2,4)); squeeze(mx.ones((1,2,1))); squeeze(mx.ones((1,2,1)),0); squeeze(mx.ones((1,2,1)),1);
squeeze(mx.ones((1,2,1)),(0,2)); squeeze(mx.ones((1,2,1)),5); squeeze(mx.ones((1,2,1)),(0,0));
expand_dims(mx.ones((2,)),0); expand_dims(mx.ones((2,)),(0,2)); expand_dims(mx.ones((2,)),-1);
expand_dims(mx.ones((2,)),5); expand_dims(mx.ones((2,)),(0,0)); transpose(mx.ones((2,3,4)));
transpose(mx.ones((2,3,4)),(2,0,1)); transpose(mx.ones((2,3,4)),(0,1)); transpose(mx.ones((2,3,4)),(0,0,1));
transpose(mx.ones((2,3,4)),(-1,0,1)); transpose(mx.ones((2,3)),(0,5)); swapaxes(mx.ones((2,3,4)),0,-1);
swapaxes(mx.ones((2,3,4)),0,5); moveaxis(mx.ones((2,3,4)),0,-1); moveaxis(mx.ones((2,3,4)),0,7);
matrix_transpose(mx.ones((2,3,4))); matrix_transpose(mx.ones((2,))); broadcast_to(mx.array([1,2]),(3,2));
broadcast_to(mx.array([1,2]),(2,3)); broadcast_to(1,(2,)); broadcast_to(mx.ones((2,1)),(2,3));
broadcast_to(mx.ones((2,1)),(3,)); broadcast_to(mx.zeros((0,)),(2,0));
broadcast_arrays(mx.ones((2,1)),mx.ones((3,))); broadcast_arrays(mx.ones((2,)),mx.ones((3,))); broadcast_arrays();
broadcast_shapes((2,1),(3,)); broadcast_shapes((2,),(3,)); broadcast_shapes(); flip(mx.arange(6).reshape(2,3));
flip(mx.arange(6).reshape(2,3),0); flip(mx.arange(6).reshape(2,3),(0,1)); flip(mx.arange(3),1); roll(mx.arange(5),2);
roll(mx.arange(5),-7); roll(mx.arange(6).reshape(2,3),1); roll(mx.arange(6).reshape(2,3),1,1);
roll(mx.arange(6).reshape(2,3),(1,1),(0,1)); roll(mx.arange(6).reshape(2,3),(1,2),1);
roll(mx.arange(6).reshape(2,3),(1,2,3),(0,1)); roll(mx.arange(5),2,3); roll(mx.zeros((0,)),1);
as_strided(mx.arange(6),(2,3),(3,1)); as_strided(mx.arange(6),(2,2),(1,1),1); as_strided(mx.arange(6));
as_strided(mx.arange(6),(3,)); view(mx.array([1.0]),mx.int32); view(mx.array([1,2],mx.int8),mx.int16);
view(mx.array([1,2,3],mx.int8),mx.int16); view(mx.array(1.0),mx.int32); view(mx.array(1.0),mx.int16);
view(mx.array([1],mx.int64),mx.int8); contiguous(mx.ones((2,3)).T); atleast_1d(mx.array(1));
atleast_2d(mx.array([1,2])); atleast_3d(mx.array([1,2])); atleast_3d(mx.ones((2,2)));
atleast_1d(mx.array(1),mx.array(2)); atleast_2d(); take(mx.arange(6).reshape(2,3),mx.array([0,2]),1);
take(mx.arange(5),2); take(mx.arange(5),-1); take(mx.arange(5),7); take(mx.arange(6).reshape(2,3),1,0);
take(mx.arange(6).reshape(2,3),mx.array([[0,1]]),0); take(mx.arange(5),mx.array(2));
take(mx.arange(5),mx.array([0.5])); take(mx.arange(5),[0,1]); take(mx.arange(5),mx.array([0]),3);
take(mx.array(1),mx.array([0])); take(mx.zeros((0,)),mx.array([0]));
take_along_axis(mx.arange(6).reshape(2,3),mx.array([[0],[2]]),1);
take_along_axis(mx.arange(6).reshape(2,3),mx.array([[-1],[2]]),1);
take_along_axis(mx.arange(6).reshape(2,3),mx.array([0,2]),None);
take_along_axis(mx.arange(6).reshape(2,3),mx.array([0]),1);
take_along_axis(mx.arange(6).reshape(2,3),mx.array([[0]]),5);
put_along_axis(mx.arange(6).reshape(2,3),mx.array([[0],[2]]),mx.array([[9],[8]]),1);
put_along_axis(mx.arange(6).reshape(2,3),mx.array([0,2]),9,None);
put_along_axis(mx.arange(6).reshape(2,3),mx.array([[0],[2]]),9,1); concatenate([mx.ones((2,)),mx.zeros((1,))]);
concatenate([mx.ones((2,2)),mx.zeros((1,2))],0); concatenate([mx.ones((2,2)),mx.zeros((1,2))],1); concatenate([]);
concatenate([mx.ones((2,))],1); concatenate([mx.array(1),mx.array(2)]);
concatenate([mx.array([1]),mx.array([1.5],mx.float16)]); concatenate([mx.ones((2,2)),mx.ones((2,2))],None);
concatenate(mx.ones((2,3))); concatenate((mx.array([1]),[2])); concatenate([mx.array([1]),np.array([2])]);
stack([mx.ones((2,)),mx.zeros((2,))]); stack([mx.ones((2,)),mx.zeros((2,))],1);
stack([mx.ones((2,)),mx.zeros((2,))],-1); stack([mx.ones((2,)),mx.zeros((3,))]); stack([]); stack([mx.ones((2,))],2);
stack([mx.array([1]),mx.array([1.5])]); split(mx.arange(6),3); split(mx.arange(6),4); split(mx.arange(6),[1,4]);
split(mx.arange(6),[4,1]); split(mx.arange(6),[1,9]); split(mx.arange(6),0); split(mx.arange(6),[]);
split(mx.ones((2,6)),2,1); split(mx.ones((2,6)),2,axis=5); split(mx.arange(6),[-2]); split(mx.arange(6),(1,2));
split(mx.array(1),1); unstack(mx.ones((2,3))); unstack(mx.ones((2,3)),axis=1); repeat(mx.array([1,2]),2);
repeat(mx.array([[1,2],[3,4]]),2); repeat(mx.array([[1,2],[3,4]]),2,0); repeat(mx.array([1]),0);
repeat(mx.array([1]),-1); repeat(mx.array(5),3); tile(mx.array([1,2]),2); tile(mx.array([1,2]),(2,2));
tile(mx.array([[1,2]]),(2,)); tile(mx.array([1]),0); tile(mx.array([1]),()); pad(mx.array([1,2]),1);
pad(mx.array([1,2]),(1,2)); pad(mx.ones((2,2)),((1,0),(0,1))); pad(mx.ones((2,2)),(1,2));
pad(mx.array([1,2]),1,constant_values=5); pad(mx.array([1,2]),1,mode='edge'); pad(mx.array([1,2]),1,mode='a');
pad(mx.array([1,2]),-1); pad(mx.array([1,2]),1,constant_values=mx.array(2.5)); pad(mx.ones((2,2)),[(1,1)]);
sort(mx.array([3,1,2])); sort(mx.array([[3,1],[2,4]]),0); sort(mx.array([[3,1],[2,4]]),None);
argsort(mx.array([3,1,2])); partition(mx.array([3,1,2]),1); partition(mx.array([3,1,2]),3);
partition(mx.array([3,1,2]),-1); argpartition(mx.array([3,1,2]),0); topk(mx.array([3,1,2]),2);
topk(mx.array([3,1,2]),0); topk(mx.array([3,1,2]),4); topk(mx.array([3,1,2]),-1);
searchsorted(mx.array([1,3,5]),mx.array([0,3,6])); searchsorted(mx.array([1,3,5]),3);
searchsorted(mx.array([1,3,5]),mx.array([3]),side='right'); searchsorted(mx.array([1,3,5]),3,side='a');
searchsorted(mx.ones((2,2)),3); diff(mx.array([1,4,9])); diff(mx.array([1,4,9]),2); diff(mx.array([1,4,9]),0);
diff(mx.array([1,4,9]),5); diff(mx.array([1,4,9]),-1); diff(mx.array(1)); diff(mx.array([True,False]));
unique(mx.array([3,1,3]),2); unique(mx.array([3,1,3]),5,fill_value=0); where(mx.array([True,False]),1,2);
where(True,mx.array([1,2]),0.5); where(mx.array([1,0]),mx.array([1.5,2]),mx.array([3,4]));
where(mx.array([True]),mx.array([1,2,3]),0); where(mx.array([True,False]),mx.array([1,2,3]),0); where(None,1,2);
where(mx.array([True]),None,2); clip(mx.array([1,5,9]),2,6); clip(mx.array([1,5,9]),None,6);
clip(mx.array([1,5,9]),None,None); clip(mx.array([5.0]),3,1); clip(mx.array([1,5]),1.5,3);
clip(mx.array([1,5]),mx.array([0,6]),mx.array([2,7])); clip(mx.array([mx.nan]),0,1); clip(5,0,3);
nan_to_num(mx.array([mx.nan,mx.inf,-mx.inf])); nan_to_num(mx.array([mx.nan,mx.inf]),1,2,3);
nan_to_num(mx.array([1,2])); isclose(mx.array([1.0]),mx.array([1.0+1e-6]));
isclose(mx.array([mx.nan]),mx.array([mx.nan])); isclose(mx.array([mx.nan]),mx.array([mx.nan]),equal_nan=True);
isclose(mx.array([mx.inf,-mx.inf]),mx.array([mx.inf,mx.inf])); isclose(mx.array([1,2]),1);
allclose(mx.array([1.0]),mx.array([1.0])); allclose(mx.array([1.0,2]),mx.array([1.0]));
allclose(mx.array([1.0]),1.0); array_equal(mx.array([1,2]),mx.array([1,2]));
array_equal(mx.array([1,2]),mx.array([1,3])); array_equal(mx.array([1,2]),mx.array([1,2,3]));
array_equal(mx.array([1,2]),[1,2]); array_equal(mx.array([1]),1); array_equal(mx.array([1]),mx.array([1.0]));
array_equal(mx.array([mx.nan]),mx.array([mx.nan]));
array_equal(mx.array([mx.nan]),mx.array([mx.nan]),equal_nan=True); round(mx.array([0.5,1.5,2.5]));
round(mx.array([1.234]),2); round(mx.array([125,135]),-1); round(mx.array([1.5+2.5j]));
logaddexp(mx.array([0.0]),mx.array([0.0])); logaddexp(mx.array([-mx.inf]),mx.array([-mx.inf])); logaddexp(1,2);
arctan2(mx.array([1.0]),mx.array([0.0])); arctan2(1,2); divmod(mx.array([7,-7]),2); divmod(mx.array([7.5]),2);
remainder(mx.array([7,-7]),3); remainder(mx.array([5.5,-5.5]),2); power(mx.array([2]),mx.array([3])); power(2,3);
add(1,2); add(mx.array([1]),None); logical_and(mx.array([1,0]),mx.array([1,1])); logical_or(True,False);
logical_xor(mx.array([1,0]),mx.array([1,1])); bitwise_and(mx.array([1.0]),1); left_shift(mx.array([1]),33);
left_shift(mx.array([1],mx.uint8),8); right_shift(mx.array([-8]),1); minimum(mx.array([mx.nan]),1);
maximum(1,mx.array([mx.nan])); to_fp8(mx.array([1.0,448.0,500.0])); from_fp8(mx.array([56],mx.uint8));
degrees(mx.array([3.14])); inner(mx.ones((2,3)),mx.ones((4,3))); outer(mx.array([1,2]),mx.array([3,4]));
outer(mx.ones((2,2)),mx.array([1])); kron(mx.array([1,2]),mx.array([1,1]));
tensordot(mx.ones((2,3)),mx.ones((3,4)),1); tensordot(mx.ones((2,3)),mx.ones((3,4)));
tensordot(mx.ones((2,3,4)),mx.ones((3,4,5))); tensordot(mx.ones((2,3)),mx.ones((4,3)),[[1],[1]]);
tensordot(mx.ones((2,)),mx.ones((2,)),0); einsum('ij,jk->ik',mx.ones((2,3)),mx.ones((3,4)));
einsum('ii->i',mx.ones((2,2))); einsum('ij->',mx.ones((2,3))); einsum('ij',mx.ones((2,3)));
einsum('ij,jk',mx.ones((2,3)),mx.ones((4,4))); einsum('i->ii',mx.ones((2,)));
einsum('...i,i->...',mx.ones((2,3)),mx.ones((3,))); einsum('ij,ij->ij',mx.ones((2,3)),mx.ones((2,1)));
einsum('i,j->ij',mx.array([1,2]),mx.array([3,4])); vecdot(mx.array([1.,2]),mx.array([3.,4]));
addmm(mx.ones((2,)),mx.ones((2,3)),mx.ones((3,2))); addmm(mx.ones((5,)),mx.ones((2,3)),mx.ones((3,2)));
addmm(mx.ones((2,2)),mx.ones((2,3)),mx.ones((3,2)),alpha=2.0,beta=0.5); matmul(mx.ones((2,3)),mx.ones((3,)));
matmul(mx.ones((3,)),mx.ones((3,2))); matmul(mx.ones((2,2,3)),mx.ones((3,4))); matmul(mx.ones((2,0)),mx.ones((0,3)));
matmul(mx.array([1j]),mx.array([1j])); convolve(mx.array([1.,2,3]),mx.array([0.,1,0.5]));
convolve(mx.array([1.,2,3]),mx.array([0.,1,0.5]),'same'); convolve(mx.array([1.,2,3]),mx.array([0.,1]),'valid');
convolve(mx.array([1,2,3]),mx.array([0,1])); convolve(mx.array([1.,2]),mx.array([1.]),'a');
conv1d(mx.ones((1,5,2)),mx.ones((3,3,2))); conv1d(mx.ones((1,5,2)),mx.ones((4,3,1)),groups=2);
conv1d(mx.ones((1,5,2)),mx.ones((4,3,2)),stride=2,padding=1); conv1d(mx.ones((5,2)),mx.ones((4,3,2)));
conv1d(mx.ones((1,5,2)),mx.ones((4,3,3))); conv2d(mx.ones((1,4,4,1)),mx.ones((1,3,3,1)),padding=(1,0));
conv_general(mx.ones((1,4,1)),mx.ones((1,3,1)),padding=([1],[0])); hadamard_transform(mx.array([1.,2,3,4]));
hadamard_transform(mx.array([1.,2,3])); linalg.norm(mx.array([3.,4])); linalg.norm(mx.ones((2,2)));
linalg.norm(mx.ones((2,2)),'fro'); linalg.norm(mx.ones((2,2)),2,0); linalg.norm(mx.ones((2,2)),1);
linalg.norm(mx.ones((2,2)),float('inf')); linalg.norm(mx.array([3.,4]),1); linalg.norm(mx.array([3.,4]),0);
linalg.norm(mx.array([3.,4]),'a'); linalg.norm(mx.ones((2,2,2))); linalg.norm(mx.ones((2,2)),axis=0,keepdims=True);
linalg.norm(mx.array([3,4])); linalg.inv(mx.array([[2.,0],[0,4]])); linalg.inv(mx.array([[2,0],[0,4]]));
linalg.inv(mx.ones((2,3))); linalg.cross(mx.array([1,0,0]),mx.array([0,1,0]));
linalg.cross(mx.array([1.,0]),mx.array([0.,1])); linalg.cross(mx.array([1.,0,0,0]),mx.array([0.,1,0,0]))
""")))
MASK = "None; 'causal'; mx.zeros((2, 3)); mx.array([[True, False, True], [True, True, True]]); 'a'; mx.zeros((2, 4))"
for mask in listed(MASK):
    q, k, v = "mx.arange(16.).reshape(1, 2, 2, 4) / 16", "mx.arange(12.).reshape(1, 1, 3, 4) / 12", "mx.arange(6.).reshape(1, 1, 3, 2)"
    add(f"mx.fast.scaled_dot_product_attention({q}, {k}, {v}, scale=0.5, mask={mask})")
add(*listed(r"""
mx.fast.rms_norm(mx.array([[3.,4]]),mx.ones((2,)),1e-5); mx.fast.rms_norm(mx.array([[3.,4]]),None,1e-5);
mx.fast.rms_norm(mx.array([3.,4]),mx.ones((3,)),1e-5); mx.fast.rms_norm(mx.array([3,4]),None,1e-5);
mx.fast.rms_norm(mx.array(3.),None,1e-5); mx.fast.layer_norm(mx.array([[3.,4]]),None,None,1e-5);
mx.fast.layer_norm(mx.array([[3.,4]]),mx.ones((2,)),mx.ones((2,)),1e-5);
mx.fast.layer_norm(mx.array([[3.,4]],mx.float16),None,mx.ones((2,)),1e-5);
mx.fast.rope(mx.ones((1,2,4)),4,traditional=True,base=1e4,scale=1.0,offset=0);
mx.fast.rope(mx.ones((1,2,4)),4,traditional=False,base=1e4,scale=1.0,offset=3);
mx.fast.rope(mx.ones((1,2,4)),2,traditional=False,base=1e4,scale=2.0,offset=mx.array(3));
mx.fast.rope(mx.ones((2,2,4)),4,traditional=False,base=1e4,scale=1.0,offset=mx.array([1,2]));
mx.fast.rope(mx.ones((1,2,4)),4,traditional=False,base=None,scale=1.0,offset=0,freqs=mx.array([1.,2.]));
mx.fast.rope(mx.ones((1,2,4)),4,traditional=False,base=1e4,scale=1.0,offset=0,freqs=mx.array([1.,2.]));
mx.fast.rope(mx.ones((1,2,4)),4,traditional=False,base=None,scale=1.0,offset=0);
mx.fast.rope(mx.ones((2,4)),4,traditional=False,base=1e4,scale=1.0,offset=0);
mx.fast.rope(mx.ones((1,2,4)),3,traditional=False,base=1e4,scale=1.0,offset=0);
mx.fast.rope(mx.ones((1,2,4)),8,traditional=False,base=1e4,scale=1.0,offset=0);
mx.fast.rope(mx.ones((1,2,4)),4,traditional=False,base=1e4,scale=1.0,offset=1.5);
mx.fast.rope(mx.ones((1,2,4)),4,traditional=False,base=1e4,scale=1.0,offset=mx.array(1.5));
mx.fast.rope(mx.ones((2,2,4)),4,traditional=False,base=1e4,scale=1.0,offset=mx.array([1,2,3]));
mx.fast.rope(mx.ones((1,2,4),mx.int32),4,traditional=False,base=1e4,scale=1.0,offset=0);
mx.fast.scaled_dot_product_attention(mx.ones((1,3,2,4)),mx.ones((1,2,3,4)),mx.ones((1,2,3,4)),scale=1.0);
mx.fast.scaled_dot_product_attention(mx.ones((1,2,2,4)),mx.ones((1,2,3,4)),mx.ones((1,2,3,4)),scale=1.0,sinks=mx.array([1.,2.]));
mx.fast.scaled_dot_product_attention(mx.ones((2,2,4)),mx.ones((2,3,4)),mx.ones((2,3,4)),scale=1.0)
"""))
for x in listed(r"""
uniform(shape=(3,)); uniform(1,2,(2,2)); uniform(shape=(2,),dtype=mx.float16); uniform(shape=3);
uniform(shape=(2,),dtype=mx.int32); normal((3,)); normal((2,),dtype=mx.bfloat16); normal((2,),loc=1.0,scale=2.0);
normal((2,),loc=mx.array([1.,2.])); bernoulli(0.3,(4,)); bernoulli(mx.array([0.1,0.9])); bernoulli(1);
randint(0,10,(5,)); randint(0,10,(5,),mx.uint8); randint(5,5,(2,)); randint(0,1.5,(2,));
randint(0,10,(2,),mx.float32); permutation(5); permutation(mx.arange(6).reshape(3,2));
permutation(mx.arange(6).reshape(3,2),axis=1); categorical(mx.array([0.,1.,2.])); categorical(mx.zeros((2,3)));
categorical(mx.zeros((2,3)),num_samples=4); categorical(mx.zeros((2,3)),shape=(5,2));
categorical(mx.zeros((2,3)),axis=0); gumbel((3,)); laplace((3,)); truncated_normal(-1,1,(3,));
truncated_normal(mx.array([-1.,0.]),mx.array([1.,2.])); split(mx.random.key(1),3); key(5); key(-1); key(2**64);
seed(-1); multivariate_normal(mx.zeros((2,)),mx.array([[2.,1.],[1.,2.]]),(3,));
uniform(shape=(2,),key=mx.array([1,2])); uniform(shape=(2,),key=5); uniform(shape=(2,),key=mx.random.key(3));
uniform(low=mx.array([0.,1.]),high=mx.array([1.,2.]),shape=(3,2)); uniform(low=mx.array([0.,1.]),high=1,shape=(3,));
normal(); uniform()
"""):
    add(f"mx.random.{x}", before="mx.random.seed(7)")

# Forms of calls, lists of arrays and lists, singular values, and what else programs do.
add(*listed(r"""
mx.roll(mx.arange(6).reshape(2, 3), 1, axis=1); mx.roll(mx.arange(6), shift=2); mx.roll(mx.arange(6).reshape(2, 3), 1, axis=5);
mx.astype(mx.array([0, 2]), dtype=mx.bool_); mx.count_nonzero(mx.arange(6).reshape(2, 3), 1);
mx.count_nonzero(mx.arange(6).reshape(2, 3), (0, 1), True); mx.can_cast(from_=mx.int8, to=mx.int32);
mx.split(mx.arange(5), mx.array([1, 3])); mx.split(mx.arange(5), np.array([1, 3]));
__import__('weakref').ref(mx.array(1))() is None;
mx.array([[mx.array([True, False]), [1.0, 2.0]], [[3.0, 4.0], mx.array([True, False])]]);
mx.array([mx.array([1, 2]), [1.0, 2.0]]); mx.array([[mx.array(1), 2], mx.array([3, 4])]);
mx.array([mx.array([1.0], mx.float16), [1]]); mx.array([mx.array([1.0], mx.float16), [1.5]]); mx.array([mx.zeros((0,)), []]);
mx.array([mx.array([1, 2]), [3]]); mx.array([[1, 2], mx.array([3])]); mx.array([mx.array([1, 2]), 3]); mx.array([3, mx.array([1, 2])]);
mx.array([mx.array([1, 2]), [3.5, 4]], dtype=mx.int32); mx.array([[mx.array([1, 2])], [[3, 4]]]); mx.array([mx.array([[1], [2]]), [[3], [4]]]);
mx.array([mx.array([[1], [2]]), [[3, 4]]]); mx.array([mx.array([True]), [1]]); mx.array([mx.array([1], mx.int8), [1j]]);
mx.linalg.norm(mx.array([[3.0, 0.0], [4.0, 5.0]]), 2).item() // 1e-3; mx.linalg.norm(mx.array([[3.0, 0.0], [4.0, 5.0]]), -2).item() // 1e-3;
mx.linalg.norm(mx.array([[3.0, 0.0, 1.0], [4.0, 5.0, 1.0]]), 'nuc').item() // 1e-3;
mx.linalg.norm(mx.arange(24.0).reshape(2, 3, 4), 2, axis=(0, 2)).shape; mx.linalg.norm(mx.arange(24.0).reshape(2, 3, 4), 'nuc', axis=(-1, 1), keepdims=True).shape;
mx.linalg.norm(mx.array([[3, 0], [4, 5]]), 2); mx.linalg.norm(mx.array([[3.0, 0.0], [4.0, 5.0]], mx.float16), 'nuc');
mx.array([[1, 2], [3, 4]])[np.int64(1), mx.array([0, 1])]; mx.arange(24).reshape(2, 3, 4)[mx.array([0, 1]), np.int32(0), :];
mx.arange(6).reshape(2, 3)[[0, 1], np.int64(1)]; mx.arange(6).reshape(2, 3)[np.array(1), mx.array([0])]; mx.arange(6).reshape(2, 3)[np.array([1]), mx.array([0])];
mx.zeros((0, 3))[mx.array([], mx.int32)]; mx.take(mx.zeros((0,)), mx.array([], mx.int32)); mx.take(mx.zeros((0, 2)), mx.zeros((0,), mx.int32), axis=0);
mx.vecdot(mx.array([100, 100], mx.int8), mx.array([100, 100], mx.int8)); mx.vecdot(mx.array([1, 2], mx.uint16), mx.array([3, 4], mx.uint16)); mx.vecdot(mx.array(1.0), mx.array(2.0));
mx.fast.rms_norm(mx.arange(4)[None], mx.ones(4), 1e-5).dtype; mx.fast.rms_norm(mx.arange(4)[None], mx.ones(4, mx.float16), 1e-5).dtype; mx.fast.rms_norm(mx.arange(4)[None], None, 1e-5);
mx.fast.layer_norm(mx.arange(4)[None], mx.ones(4), mx.ones(4), 1e-5).dtype; mx.fast.layer_norm(mx.arange(4)[None], None, None, 1e-5);
mx.conv_general(mx.ones((1, 4, 4, 1)), mx.ones((1, 3, 3, 1)), padding=[(0, 1), (2, 0)]); mx.conv_general(mx.ones((1, 4, 4, 1)), mx.ones((1, 3, 3, 1)), padding=[[0, 1], [2, 0]]);
mx.conv_general(mx.ones((1, 4, 4, 1)), mx.ones((1, 3, 3, 1)), padding=[1, 0]); mx.conv1d(mx.ones((1, 4, 1), mx.complex64), mx.ones((1, 3, 1), mx.complex64));
mx.gather_mm(mx.ones(4), mx.ones((5, 4, 6)), None, mx.array([0, 4])); mx.gather_mm(mx.ones((5, 3, 4)), mx.ones(4), mx.array([0, 4])); mx.gather_mm(mx.ones(4), mx.ones(4));
mx.logcumsumexp(mx.array([1 + 2j, 0.5 - 1j])).shape; mx.logcumsumexp(mx.array([[1 + 0j, 2], [3, 4]]), axis=1, reverse=True).dtype;
mx.random.normal((3,), mx.complex64, loc=1 + 2j, scale=2.0, key=mx.random.key(1)).shape
"""))
add("mx.reset_peak_memory() or mx.get_peak_memory()", before="a = mx.ones((100,)); mx.eval(a)")
add(*listed("r() is None; r() is x; (x.__init__, r() is x)[1]"), before="import weakref; x = mx.array([1, 2]); r = weakref.ref(x)")
add("r() is None", "(len(m), r() is None)[1]", before="import weakref, gc; x = mx.array([1, 2]); mx.eval(x); m = memoryview(x); r = weakref.ref(x); del x; gc.collect()")
add("r() is None", before="import weakref, gc; x = mx.array([1, 2]); r = weakref.ref(x); del x; gc.collect()")

# Padding below zero, keywords of functions of one array, enumerations.
W = "mx.array([1.0, 10, 100]).reshape(1, 3, 1)"
X = "(mx.arange(7.0).reshape(1, 7, 1) + 1)"
for p in (-1, -2, -3, -4):
    add(f"mx.conv1d({X}, {W}, padding={p})", f"mx.conv1d({X}, {W}, stride=2, padding={p})", f"mx.conv1d({X}, {W}, dilation=2, padding={p})")
    add(f"mx.conv_general({X}, {W}, padding=([{p}], [0]), input_dilation=2)", f"mx.conv_general({X}, {W}, padding=([{p}], [1]))")
    add(f"mx.conv2d(mx.ones((1, 5, 6, 1)), mx.ones((1, 2, 2, 1)), padding=({p}, 1))")
for f in "bitwise_and bitwise_or bitwise_xor left_shift right_shift".split():
    add(*(f"mx.{f}({a})" for a in ("mx.array([1.0]), mx.array([1])", "mx.array([1]), 1.5", "mx.array([1]), 1j", "1.5, 2")))
add(*(f"mx.{f}(a=mx.array([1.0, mx.inf, -mx.inf, mx.nan]))" for f in "isnan isinf isfinite isneginf isposinf conj conjugate".split()))
add(*(f"mx.{f}(mx.array([1.0, mx.nan]), mx.cpu)" for f in "isnan isinf isfinite isneginf isposinf".split()), "mx.bitwise_invert(mx.array([5]), mx.cpu)")
add("mx.fft.fft(mx.array([1.0, 2.0]), 2, -1, 'backward', mx.cpu)", "mx.fft.fftfreq(4, 1.0, mx.cpu)", "mx.fft.fftshift(mx.arange(4), None, mx.cpu)")
add("mx.arange(3, dtype=mx.complex64)", "mx.arange(0.5, 3, dtype=mx.complex64)", "mx.arange(3, dtype=mx.bool_)")
for d in "bool_ int8 uint16 int64 float16 float32 float64 complex64 complex128".split():
    add(f"mx.from_dlpack(np.array([1, 2], dtype=np.{d}))", f"mx.from_dlpack(np.ones((2, 3), np.{d}).T)", f"mx.asarray(np.array([1, 2], dtype=np.{d}))")
add(*listed("""mx.from_dlpack(mx.array([1], mx.float64)); mx.cpu.name; mx.gpu.value; mx.DeviceType(0) == mx.cpu; mx.DeviceType(1).name; mx.DeviceType(5);
dict(mx.DeviceType.__members__); mx.floating.name; mx.integer.value; sorted(mx.DtypeCategory.__members__); mx.device_info(mx.gpu);
mx.distributed.send(mx.array(1), 0); mx.distributed.recv((2,), mx.float32, 0); mx.distributed.recv_like(mx.array(1), 0)"""))
for f, d in itertools.product(REDUCE, DTYPES):
    if f not in ("argmax", "argmin"):  # keepdims of a 0-d array is what the peer cannot do there
        add(f"mx.{f}(mx.array(3).astype(mx.{d}))", f"mx.{f}(mx.array(3).astype(mx.{d}), axis=None)")
